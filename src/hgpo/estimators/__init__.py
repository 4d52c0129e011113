"""The table of estimators: a name, its settings, its function."""

from . import g2po, gigpo, graphgpo, grpo, hgpo, hgpo_lambda, reinforce_plus_plus, rloo
from .base import Estimator

ESTIMATORS: dict[str, Estimator] = {
    "hgpo": Estimator(hgpo.HgpoSettings, hgpo.compute),
    "hgpo_lambda": Estimator(hgpo_lambda.HgpoLambdaSettings, hgpo_lambda.compute),
    "gigpo": Estimator(gigpo.GigpoSettings, gigpo.compute),
    "graphgpo": Estimator(graphgpo.GraphgpoSettings, graphgpo.compute),
    "g2po": Estimator(g2po.G2poSettings, g2po.compute),
    "grpo": Estimator(grpo.GrpoSettings, grpo.compute),
    "dr_grpo": Estimator(grpo.DrGrpoSettings, grpo.compute_dr),
    "rloo": Estimator(rloo.RlooSettings, rloo.compute),
    "reinforce_plus_plus": Estimator(
        reinforce_plus_plus.ReinforcePlusPlusSettings, reinforce_plus_plus.compute
    ),
}

__all__ = ["ESTIMATORS", "Estimator"]
