"""TRL as the trainer: our episodes and advantages as rows of its `AsyncGRPOTrainer`.

- `RolloutWorker` plays whole groups on our stage, estimates their advantages and hands TRL one row per step;
- `trainer_settings` says the settings of a run in TRL's names;
- `LocalPlayer` is a copy of the policy in the trainer's own process, for small models and for one GPU. Larger ones play
  on a vLLM server (`hgpo.policies.completions`), into which TRL sends the weights itself.

Nothing here is imported by the rest of the package, and nothing here imports TRL before it is used.
"""

from .settings import trainer_settings
from .worker import RolloutWorker

__all__ = ["RolloutWorker", "trainer_settings"]
