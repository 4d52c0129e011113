"""Could training start here? Versions, registries, hooks, conflicts, GPUs, Ray; each finding with its fix."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from typing import Any, Literal

from ..config.schema import Config
from ..errors import BadFile, EngineFailed
from ..hooks import check
from ..install import install_command
from .hooks import CPU_HOOKS, HOOKS
from .names import AGENT, ESTIMATOR, MODES
from .overrides import Cluster
from .versions import LOWEST, NEEDED, RANGE, conflict, installed, misfit, numbers

Level = Literal["ok", "warning", "error"]
MEMORY = 6 << 30
"""A dry run's processes need about this many bytes."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    level: Level
    detail: str
    fix: str = ""

    @property
    def sentence(self) -> str:
        """What was found."""
        return f"{self.name}: {self.detail}"

    def as_dict(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)


def examine(*, cpu: bool = False, ray_address: str = "") -> list[Finding]:
    """Look at everything; with `cpu` at what a dry run needs, else at what training on GPUs needs."""
    findings = [*_python(), *_packages()]
    if any(one.level == "error" for one in findings):
        # Importing verl would only repeat what is known already, less clearly.
        return findings
    with _quiet():
        findings += _plugin()
        findings += _hooks((*HOOKS, *CPU_HOOKS) if cpu else HOOKS)
        if not any(one.level == "error" for one in findings):
            findings += _registries()
    findings += _machine_cpu() if cpu else [*_engines(), *_gpus(ray_address)]
    findings += _ray(ray_address, cpu=cpu)
    return findings


def require_ready(config: Config, cluster: Cluster) -> list[str]:
    """Whether a run of `config` could start on `cluster`: looks at everything that is seen without starting verl.

    Returns:
        The sentences of what is no obstacle but should be known.

    Raises:
        EngineFailed: with the sentences that `doctor` gives for what is in the way.
    """
    findings = [
        *_python(),
        *_packages(),
        *_engines(cluster.engine),
        *_gpus(cluster.ray_address, cluster.gpus),
        *_cores(cluster),
        *_model(config),
    ]
    if cluster.ray_address and not any(one.level == "error" for one in findings):
        findings += _ray(cluster.ray_address, cpu=False, wanted=cluster)
    errors = [f"{one.sentence}; {one.fix}" for one in findings if one.level == "error"]
    if errors:
        raise EngineFailed("Training cannot start. " + ". ".join(errors) + ".")
    warnings = [f"{one.sentence}; {one.fix}" for one in findings if one.level == "warning"]
    return [*warnings, *_memory(config, cluster)]


def _memory(config: Config, cluster: Cluster) -> list[str]:
    """What the run will take of each GPU; empty where the GPUs are elsewhere or the model's size is not known."""
    import torch

    from ..models.shape import find_shape
    from .memory import reckon

    shape = find_shape(config.model.path)
    if shape is None or not torch.cuda.is_available():
        return []
    found = reckon(config, cluster, shape, float(torch.cuda.get_device_properties(0).total_memory))
    return [*found.lines(), *([] if found.fits() else ["It will hardly fit: see `hgpo verl memory`."])]


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 10) <= sys.version_info < (3, 13):
        yield Finding("python", "ok", version)
    else:
        yield Finding(
            "python",
            "error",
            f"{version}; verl 0.9 runs on 3.10 to 3.12",
            "make an environment with Python 3.12",
        )


def _packages() -> Iterator[Finding]:
    for package in ("verl", *NEEDED, "torch", "transformers", "ray", "pyarrow"):
        version = installed(package)
        fix = "pip install torch" if package == "torch" else install_command("verl")
        if version is None:
            yield Finding(package, "error", "not installed", fix)
        elif package == "verl" and misfit() and not conflict():
            yield Finding(package, "error", f"{version}; expected {RANGE}", f"pip install '{RANGE}'")
        else:
            yield Finding(package, "ok", version)
    transformers = installed("transformers")
    if transformers and not (5, 5, 3) <= numbers(transformers) < (5, 11):
        yield Finding(
            "transformers",
            "error",
            f"{transformers}; verl {'.'.join(map(str, LOWEST))} needs 5.5.3 or newer, below 5.11",
            "pip install 'transformers>=5.10,<5.11'",
        )
    if conflict():
        yield Finding("trl", "error", conflict(), "pip uninstall trl")
    else:
        yield Finding("trl", "ok", f"{installed('trl') or 'not installed'} (no conflict)")


def _plugin() -> Iterator[Finding]:
    known = [point.value for point in entry_points(group="verl.plugins") if point.name == "hgpo"]
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    if not known:
        yield Finding(
            "plug-in",
            "error",
            "the entry point hgpo of the group verl.plugins is not installed",
            "install the package itself (pip install . in its checkout); a PYTHONPATH alone brings no entry points",
        )
        return
    if policy not in ("auto", "") and "hgpo" not in [name.strip() for name in policy.split(",")]:
        yield Finding(
            "plug-in",
            "error",
            f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps verl from loading it",
            "unset VERL_USE_EXTERNAL_PLUGINS, or add hgpo to it",
        )
        return
    try:
        importlib.import_module("verl")
        importlib.import_module(f"{__package__}.plugin")
    except Exception as error:
        yield Finding("plug-in", "error", f"it does not load: {error}", "mend what the message names")
        return
    yield Finding("plug-in", "ok", f"loaded by verl from {known[0]}")


def _registries() -> Iterator[Finding]:
    def agent() -> bool:
        from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

        return AGENT in _agent_loop_registry

    def estimator() -> bool:
        from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

        return ESTIMATOR in ADV_ESTIMATOR_REGISTRY

    def trainers() -> bool:
        from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

        return set(MODES.values()) <= set(TRAINER_REGISTRY)

    wanted: dict[str, tuple[Callable[[], bool], str]] = {
        "agent loop": (agent, AGENT),
        "estimator": (estimator, ESTIMATOR),
        "trainer modes": (trainers, ", ".join(MODES.values())),
    }
    for name, (present, value) in wanted.items():
        try:
            registered = present()
        except Exception as error:
            yield Finding(name, "error", f"the registry moved: {error}", f"install {RANGE}")
            continue
        if registered:
            yield Finding(name, "ok", f"registered as {value}")
        else:
            yield Finding(
                name, "error", f"{value} is not registered", "see the plug-in's own message on standard error"
            )


def _hooks(hooks: Any) -> Iterator[Finding]:
    problems = [problem for problem in map(check, hooks) if problem]
    for problem in problems:
        yield Finding("hook", "error", problem, f"install {RANGE}, or a newer hgpo")
    if not problems:
        yield Finding("hooks", "ok", f"all {len(hooks)} are as expected")


def _engines(wanted: str = "") -> Iterator[Finding]:
    engines = {name: installed(name) for name in ("vllm", "sglang") if installed(name)}
    if wanted and engines and wanted not in engines:
        yield Finding(
            "rollout engine",
            "error",
            f"{wanted} is not installed ({', '.join(engines)} is)",
            f"pip install 'verl[{wanted}]', or give --engine {next(iter(engines))}",
        )
    elif engines:
        yield Finding(
            "rollout engine", "ok", ", ".join(f"{name} {version}" for name, version in engines.items())
        )
    else:
        yield Finding(
            "rollout engine",
            "error",
            "neither vllm nor sglang is installed",
            "pip install 'verl[vllm]' (its pins decide the version of torch)",
        )
    version = installed("flash-attn")
    yield Finding("flash-attn", "ok", str(version) if version else "not installed, and not needed")


def _gpus(ray_address: str, wanted: int = 0) -> Iterator[Finding]:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count and count < wanted and not ray_address:
        yield Finding(
            "GPUs",
            "error",
            f"{count} found, --gpus {wanted} asked for",
            f"give --gpus {count}, or look at CUDA_VISIBLE_DEVICES",
        )
    elif count:
        names = sorted({torch.cuda.get_device_name(index) for index in range(count)})
        least = min(torch.cuda.get_device_properties(index).total_memory for index in range(count)) / 2**30
        yield Finding("GPUs", "ok", f"{count} x {', '.join(names)}, {least:.0f} GiB")
    elif ray_address:
        yield Finding("GPUs", "ok", "none on this machine; those of the Ray cluster count")
    else:
        yield Finding(
            "GPUs",
            "error",
            "none found",
            "run on a machine with GPUs, give --ray-address of a cluster, or check a dry run with --cpu",
        )


def _cores(cluster: Cluster) -> Iterator[Finding]:
    """Ray is told that it has as many CPUs as verl books; what runs on them needs a few real ones."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    least = 2 + 2 * cluster.gpus
    if not cluster.ray_address and count < least:
        yield Finding(
            "CPUs",
            "warning",
            f"{count} for {cluster.gpus} GPUs and {cluster.workers} processes that run episodes",
            f"expect GPUs to wait for them; {least} or more is better (a container may have been given too few)",
        )


def _model(config: Config) -> Iterator[Finding]:
    """Whether the model that verl is to load can be found; a run that makes its own needs none."""
    from ..models.hub import check_hub
    from ..models.source import check_source
    from ..runs.start import makes_start

    path = config.model.path
    if makes_start(config) and path == "tiny":
        return
    try:
        check_source(path)
        check_hub(path)
    except BadFile as error:
        yield Finding("model", "error", str(error).rstrip("."), "give another with model=PATH")


def _machine_cpu() -> Iterator[Finding]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    level: Level = "ok" if total >= MEMORY else "error"
    yield Finding(
        "memory",
        level,
        f"{total / 2**30:.0f} GiB, {os.cpu_count()} CPUs",
        "" if level == "ok" else f"a dry run needs about {MEMORY >> 30} GiB",
    )


def _ray(address: str, *, cpu: bool, wanted: Cluster | None = None) -> Iterator[Finding]:
    if os.path.isdir("/dev/shm"):
        free = shutil.disk_usage("/dev/shm").free
        if free < 1 << 30:
            yield Finding(
                "shared memory",
                "warning",
                f"{free / 2**30:.1f} GiB free in /dev/shm; Ray keeps its objects there",
                "raise it (docker run --shm-size=16g), else Ray falls back to the disk",
            )
    if cpu or not address:
        return
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        yield Finding(
            "ray cluster",
            "error",
            f"{address} cannot be reached: {' '.join(str(error).split())[:200]}",
            "start it with `ray start --head`; all machines must share the token file ~/.ray/auth_token",
        )
        return
    try:
        total = ray.cluster_resources()
        gpus = int(total.get("GPU", 0))
        cpus = int(total.get("CPU", 0))
        text = f"{len(ray.nodes())} machines, {gpus} GPUs, {cpus} CPUs"
        if wanted is not None and (gpus < wanted.all_gpus or cpus < wanted.cpus):
            asked = f"{text}; the run asks for {wanted.all_gpus} GPUs and books {wanted.cpus} CPUs"
            fix = "start Ray with `--num-cpus N` (they are Ray's books, not cores), or on more machines"
            yield Finding("ray cluster", "error", asked, fix)
        elif gpus:
            yield Finding("ray cluster", "ok", text)
        else:
            yield Finding("ray cluster", "error", text, "start Ray on the machines with GPUs")
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """verl's imports warn about every engine that is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
