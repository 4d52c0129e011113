"""The table of estimators: a name, its settings, its function."""

from . import g2po, gigpo, graphgpo, grpo, hgpo, hgpo_lambda, reinforce_plus_plus, rloo
from .base import Estimator

ESTIMATORS: dict[str, Estimator] = {
    # Shrinkage takes its variances from, and divides by the deviation of, the whole batch.
    "hgpo": Estimator(hgpo.HgpoSettings, hgpo.compute, lambda s: s.weight_type != "shrinkage"),
    "hgpo_lambda": Estimator(hgpo_lambda.HgpoLambdaSettings, hgpo_lambda.compute, lambda s: False),
    "gigpo": Estimator(gigpo.GigpoSettings, gigpo.compute),
    "graphgpo": Estimator(graphgpo.GraphgpoSettings, graphgpo.compute),
    "g2po": Estimator(g2po.G2poSettings, g2po.compute),
    "grpo": Estimator(grpo.GrpoSettings, grpo.compute),
    "dr_grpo": Estimator(grpo.DrGrpoSettings, grpo.compute_dr),
    "rloo": Estimator(rloo.RlooSettings, rloo.compute),
    "reinforce_plus_plus": Estimator(
        reinforce_plus_plus.ReinforcePlusPlusSettings, reinforce_plus_plus.compute, lambda s: False
    ),
}

__all__ = ["ESTIMATORS", "Estimator"]
