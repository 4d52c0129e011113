"""The table of estimators: each is one file with its settings, its function and this one line."""

from . import g2po, gigpo, graphgpo, grpo, hgpo, hgpo_lambda, reinforce_plus_plus, rloo
from .base import Estimator

ESTIMATORS: dict[str, Estimator] = {
    "hgpo": hgpo.ESTIMATOR,
    "hgpo_lambda": hgpo_lambda.ESTIMATOR,
    "gigpo": gigpo.ESTIMATOR,
    "graphgpo": graphgpo.ESTIMATOR,
    "g2po": g2po.ESTIMATOR,
    "grpo": grpo.ESTIMATOR,
    "dr_grpo": grpo.DR_ESTIMATOR,
    "rloo": rloo.ESTIMATOR,
    "reinforce_plus_plus": reinforce_plus_plus.ESTIMATOR,
}

__all__ = ["ESTIMATORS", "Estimator"]
