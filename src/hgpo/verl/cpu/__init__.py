"""verl on the CPU, for dry runs: a platform, a rollout server on transformers, and the two patches verl needs.

Active only where `HGPO_VERL_CPU=1` is set, which `hgpo verl dry-run` does for its own processes.
"""

from __future__ import annotations

import functools

from ..names import CPU_ROLLOUT


def activate() -> None:
    """Make verl of this process run on the CPU."""
    from verl.plugin.platform.platform_manager import PlatformRegistry, set_platform

    from .platform import CpuPlatform

    PlatformRegistry.register(platform="cpu")(CpuPlatform)
    set_platform(CpuPlatform())

    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp import FSDPEngineWithLMHead, transformer_impl
    from verl.workers.rollout import base, replica

    EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")(
        FSDPEngineWithLMHead
    )
    base._ROLLOUT_REGISTRY[(CPU_ROLLOUT, "async")] = f"{__package__}.rollout.WeightSender"
    replica.RolloutReplicaRegistry.register(CPU_ROLLOUT, _replica)

    from verl.workers import engine_workers

    # verl joins "cpu:gloo" and "<device>:<backend>", which on the CPU names the device twice.
    engine_workers.initialize_global_process_group_ray = functools.partial(
        engine_workers.initialize_global_process_group_ray, backend="gloo"
    )
    # The reference policy is offloaded through pinned memory, which needs an accelerator.
    transformer_impl.CPUOffloadPolicy = functools.partial(_unpinned, transformer_impl.CPUOffloadPolicy)


def _replica() -> type:
    from .rollout import Replica

    return Replica


def _unpinned(policy: type, pin_memory: bool = True) -> object:
    return policy(pin_memory=False)
