"""From steps to tokens: every token of a reply carries the advantage of its step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import BadSteps


def spread_over_tokens(advantages: Sequence[float] | np.ndarray[Any, Any], mask: Any) -> Any:
    """The advantages of steps as those of their tokens.

    Args:
        advantages: [steps], as `estimate(...).advantages` holds them.
        mask: [steps, tokens], true (or 1) on the tokens of the replies, false on prompts and padding; a numpy array or
            a torch tensor on any device.

    Returns:
        [steps, tokens] of the mask's kind (float64 in numpy, float32 in torch): the step's advantage where the mask is
        true, 0 elsewhere.

    >>> import numpy as np
    >>> spread_over_tokens([0.5, -1.0], np.array([[0, 1, 1], [0, 0, 1]]))
    array([[ 0. ,  0.5,  0.5],
           [ 0. ,  0. , -1. ]])
    """
    values = np.asarray(advantages, dtype=np.float64)
    if values.ndim != 1 or len(mask.shape) != 2 or len(values) != mask.shape[0]:
        raise BadSteps(
            f"Advantages of shape {list(values.shape)} and a mask of shape {list(mask.shape)} were given; expected "
            "[steps] and [steps, tokens]."
        )
    if isinstance(mask, np.ndarray):
        return np.where(mask.astype(bool), values[:, None], 0.0)
    import torch

    column = torch.as_tensor(values, dtype=torch.float32, device=mask.device)[:, None]
    return torch.where(mask.bool(), column, torch.zeros_like(column))
