"""The CPU as a verl platform: what verl asks of a device, answered by a machine that has none."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase

MEMORY = (1 << 33, 1 << 34)
"""(free, total) bytes reported as device memory; verl only logs them."""


def _nothing(*args: Any, **kwargs: Any) -> None:
    """For calls that mean nothing here."""


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


def device_module() -> types.ModuleType:
    """`torch.cpu`, with the parts of `torch.cuda` that verl calls and `torch.cpu` lacks."""
    module = types.ModuleType("hgpo_cpu_device")
    for name in dir(torch.cpu):
        setattr(module, name, getattr(torch.cpu, name))
    parts: dict[str, Any] = {
        "is_available": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: "cpu",
        "get_device_name": lambda *args: "CPU",
        "mem_get_info": lambda *args: MEMORY,
        "get_rng_state": lambda *args: torch.get_rng_state(),
        "set_rng_state": lambda state, *args: torch.set_rng_state(state),
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
    }
    parts |= dict.fromkeys(("set_device", "empty_cache", "synchronize", "reset_peak_memory_stats"), _nothing)
    parts |= dict.fromkeys(
        ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"), _zero
    )
    for name, value in parts.items():
        setattr(module, name, value)
    return module


class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """One CPU device per process; processes talk through gloo."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = device_module()

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return True

    def current_device(self) -> Any:
        # Not an index: verl moves tensors to whatever this returns.
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        # verl's resource pools count accelerators; the dry run tells Ray that it has some.
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None
