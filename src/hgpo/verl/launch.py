"""Start verl with our settings, keep what it prints, and leave a run folder like the local trainer's."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..config.schema import Config, experiment_name
from ..config.stage import open_stage
from ..config.stored import allow_flag
from ..errors import BadFile, EngineFailed, MissingExtra
from ..models.folder import check_model
from ..runs.folder import VERL, Description, RunFolder, RunPolicies
from ..runs.panels import Panel
from ..runs.play import make_panels
from .adapters import merge_folder
from .data import Dataset, write_data
from .overrides import Cluster, overrides
from .play import isolated
from .processes import execute
from .translation import lora_alpha
from .versions import installed, misfit

ENTRY = "verl.trainer.main_ppo"
TAIL = 40


def command(words: Sequence[str]) -> list[str]:
    """verl's own entry point with the given overrides."""
    return [sys.executable, "-m", ENTRY, *words]


def show(words: Sequence[str]) -> str:
    """The command as a shell reads it, one override per line."""
    return " \\\n  ".join([f"python -m {ENTRY}", *map(shlex.quote, words)])


def start_model(config: Config, run: RunFolder) -> str:
    """What verl loads: the preset's model, or the policy that the run makes and warm-starts first."""
    from ..runs.start import makes_start

    return str(run.start) if makes_start(config) else config.model.path


def run_words(config: Config, cluster: Cluster, run: RunFolder, data: Dataset, *, resume: bool) -> list[str]:
    """verl's overrides for a run in the folder `run` on the given data."""
    return overrides(
        config,
        cluster,
        model=start_model(config, run),
        train=data.train,
        validation=data.validation,
        run=run.path,
        resume=resume,
    )


def launch(
    config: Config,
    run: RunFolder,
    cluster: Cluster,
    extra: Sequence[str] = (),
    *,
    resume: bool = False,
    environment: Mapping[str, str | None] | None = None,
    prepare: Callable[[Config, RunFolder], None] | None = None,
    echo: bool = False,
    quiet: bool = False,
) -> Path:
    """Train with verl into the folder `run`; returns the exported model's folder.

    Args:
        config: the training settings.
        run: the run's folder.
        cluster: where it runs.
        extra: further overrides for verl.
        resume: continue the run in that folder.
        environment: more environment variables for verl's processes.
        prepare: makes what `start_model` names; by default the local trainer's warm start.
        echo: print all of verl's output as it comes (it is kept in RUN/verl.log either way).
        quiet: print nothing.
    """
    problem = misfit()
    if problem:
        raise EngineFailed(problem)
    from ..runs.tracking import Screen
    from .narration import Echo, Listener, Narrator, Silent

    run = RunFolder(run.path.resolve())
    with run.training():
        if resume:
            run.require_own()
            if run.start.is_dir():
                check_model(run.start)
        else:
            run.require_new()
        # First of all: what follows lies in the folder of a run, whatever ends it.
        panels = describe(config, run)
        (prepare or make_start)(config, run)
        data = write_data(config, run.data)
        words = run_words(config, cluster, run, data, resume=resume)
        screen = Screen(config.iterations, quiet=quiet)
        listener: Listener = Silent() if quiet else Echo(screen) if echo else Narrator(screen)
        status = execute(command([*words, *extra]), run.verl_log, environment or {}, listener)
        if status:
            raise EngineFailed(
                f"verl ended with status {status}; the end of {run.verl_log}:\n{tail(run.verl_log)}\n"
                f"`hgpo verl doctor` checks the installation; continue with --resume once it is repaired."
            )
        export(config, run)
        close(config, run, panels, quiet=quiet)
    return run.model


def make_start(config: Config, run: RunFolder) -> None:
    """The local trainer's warm start, where the settings ask for one."""
    from ..models.device import pick_device
    from ..runs.start import makes_start, prepare
    from ..runs.tracking import Screen

    if makes_start(config):
        stage = open_stage(isolated(config))
        prepare(config, stage, run.start, pick_device(config.device), Screen(config.iterations))
        stage.close()


def describe(config: Config, run: RunFolder) -> dict[str, Panel]:
    """Write down what the run is; returns the panels that it will be evaluated on."""
    stage = open_stage(config)
    panels = make_panels(stage, config.eval)
    tasks = stage.tasks(config.env.split, config.env.tasks)
    stage.close()
    description = Description.of(config, panels, tasks, VERL)
    versions = {name: installed(name) for name in ("verl", "ray", "TransferQueue") if installed(name)}
    provenance = {**description.provenance, "versions": {**description.provenance["versions"], **versions}}
    run.go_on(replace(description, provenance=provenance))
    return panels


def close(config: Config, run: RunFolder, panels: Mapping[str, Panel], *, quiet: bool) -> None:
    """Write the outcome of a run that came to its end."""
    from ..runs.reporting import finish
    from ..runs.tracking import Screen

    result = {
        "name": experiment_name(config),
        "ended": "finished",
        "iterations": run.verl_step(),
        "seconds": sum(row.get("seconds") or 0.0 for row in run.metrics()),
        "best_iteration": RunPolicies(run).best_iteration(),
    }
    resume = f"hgpo verl launch --resume --run {run.path}{allow_flag(config)}"
    finish(run, result, panels, Screen(config.iterations, quiet=quiet), resume, allow_flag(config))


def local_environment(switch: str) -> dict[str, str | None]:
    """Variables for a run on the CPU of this machine alone; None takes one away."""
    return {
        switch: "1",
        # Ray compares the GPUs it was told of with these, and shows each worker its share of them.
        "CUDA_VISIBLE_DEVICES": None,
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
        "RAY_ADDRESS": "local",
        "RAY_memory_monitor_refresh_ms": "0",
        # Ray makes its workers give way to everything else, which starves a run on a busy machine.
        "RAY_worker_niceness": "0",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": "disabled",
    }


def tail(log: Path) -> str:
    """The last lines of a log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    return "\n".join(lines[-TAIL:])


def export(config: Config, run: RunFolder) -> None:
    """Copy the last checkpoint's Hugging Face model to RUN/model, with the settings it was trained with."""
    source = run.verl_model(run.verl_step())
    if not any(source.glob("*.safetensors")):
        raise BadFile(
            f"There is no exported model in {source}. verl writes it with every checkpoint (save_every); was hf_model "
            "taken out of actor_rollout_ref.actor.checkpoint.save_contents?"
        )
    # The trainer has merged them already; runs of earlier releases have them still.
    merge_folder(source, lora_alpha(config))
    run.export(lambda partial: _copy(source, partial), run.description().config, run.verl_step())


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)


def resumed(run: RunFolder, iterations: int | None = None, *, allow_env: str | Sequence[str] = ()) -> Config:
    """The settings of the run in a folder, perhaps with another length; `allow_env` as `RunFolder.config` takes it."""
    config = run.config(allow_env=allow_env)
    return config if iterations is None else replace(config, iterations=iterations)


def require_extra() -> None:
    """A clear error where verl is not installed at all."""
    if installed("verl") is None:
        raise MissingExtra("verl", "verl", "Training on a cluster")
