"""Every setting of a run: the schema, presets, `key=value` words. `from hgpo.config import Config, load`."""

from .describe import describe_settings
from .load import apply, as_dict, build, load
from .preset import preset_description, preset_names
from .schema import (
    AgentConfig,
    Config,
    EnvConfig,
    EstimatorConfig,
    EvalConfig,
    ModelConfig,
    RolloutConfig,
    TrackConfig,
    UpdateConfig,
    WarmConfig,
    estimator_settings,
    experiment_name,
    resolved_estimator,
)

__all__ = [
    "AgentConfig",
    "Config",
    "EnvConfig",
    "EstimatorConfig",
    "EvalConfig",
    "ModelConfig",
    "RolloutConfig",
    "TrackConfig",
    "UpdateConfig",
    "WarmConfig",
    "apply",
    "as_dict",
    "build",
    "describe_settings",
    "estimator_settings",
    "experiment_name",
    "load",
    "preset_description",
    "preset_names",
    "resolved_estimator",
]
