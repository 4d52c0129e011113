"""Looking at recorded rollouts: do the steps that are compared really share their context?

`rollouts` finds and reads the files, `analysis` estimates each iteration, `counts` counts, `findings` says what
the counts mean, `report` puts it together and `page` draws it.
"""

from .report import Report, inspect
from .rollouts import Rollouts, open_rollouts

__all__ = ["Report", "Rollouts", "inspect", "open_rollouts"]
