"""Start verl with our settings, keep what it says, and leave a run folder like the local trainer's.

RUN/config.json    settings, versions, panels          RUN/data/        the dataset rows
RUN/metrics.jsonl  one line per iteration              RUN/rollouts/    steps with advantages
RUN/checkpoints/   verl's own, global_step_N           RUN/verl.log     everything verl printed
RUN/model/         the policy in Hugging Face format (`hgpo eval RUN` reads it)
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import as_dict, estimator_settings, read_config
from ..config.schema import Config, experiment_name
from ..errors import BadFile, BadSetting, EngineFailed, MissingExtra
from ..files import write_text
from .data import Dataset, write_data
from .overrides import Cluster, overrides
from .play import isolated
from .versions import installed, misfit

ENTRY = "verl.trainer.main_ppo"
TAIL = 40


def command(words: Sequence[str]) -> list[str]:
    """verl's own entry point with the given overrides."""
    return [sys.executable, "-m", ENTRY, *words]


def show(words: Sequence[str]) -> str:
    """The command as a shell reads it, one override per line."""
    return " \\\n  ".join([f"python -m {ENTRY}", *map(shlex.quote, words)])


def planned_data(config: Config, folder: Path) -> Dataset:
    """The files `write_data` will write, without writing them."""
    files = tuple(folder / f"validation-{split.replace('/', '.')}.parquet" for split in config.eval.splits)
    return Dataset(folder / "train.parquet", files, 0, 0)


def start_model(config: Config, run: Path) -> str:
    """What verl loads: the preset's model, or the policy that the run makes and warm-starts first."""
    from ..runs.start import makes_start, start_folder

    return str(start_folder(run)) if makes_start(config) else config.model.path


def run_words(config: Config, cluster: Cluster, run: Path, data: Dataset, *, resume: bool) -> list[str]:
    """verl's overrides for a run in the folder `run` on the given data."""
    return overrides(
        config,
        cluster,
        model=start_model(config, run),
        train=data.train,
        validation=data.validation,
        run=run,
        resume=resume,
    )


def launch(
    config: Config,
    run: Path,
    cluster: Cluster,
    extra: Sequence[str] = (),
    *,
    resume: bool = False,
    environment: Mapping[str, str | None] | None = None,
    prepare: Callable[[Config, Path], None] | None = None,
    echo: bool = True,
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
        echo: print verl's output as it comes (it is kept in RUN/verl.log either way).
    """
    problem = misfit()
    if problem:
        raise EngineFailed(problem)
    run = run.resolve()
    if (run / "config.json").is_file() and not resume:
        raise BadSetting(
            f"{run} already holds a run. Continue it with --resume, or choose another folder with --run."
        )
    run.mkdir(parents=True, exist_ok=True)
    (prepare or make_start)(config, run)
    data = write_data(config, run / "data")
    _write_config(config, run, data)
    words = run_words(config, cluster, run, data, resume=resume)
    status = execute(command([*words, *extra]), run / "verl.log", environment or {}, echo=echo)
    if status:
        raise EngineFailed(
            f"verl ended with status {status}; the end of {run / 'verl.log'}:\n{tail(run / 'verl.log')}\n"
            f"`hgpo verl doctor` checks the installation; continue with --resume once it is mended."
        )
    return export(config, run)


def make_start(config: Config, run: Path) -> None:
    """The local trainer's warm start, where the settings ask for one."""
    from ..config.stage import open_stage
    from ..models.load import pick_device
    from ..runs.start import makes_start, prepare, start_folder
    from ..runs.tracking import Screen

    if makes_start(config):
        stage = open_stage(isolated(config))
        prepare(config, stage, start_folder(run), pick_device(config.device), Screen(config.iterations))
        stage.close()


def execute(words: Sequence[str], log: Path, environment: Mapping[str, str | None], *, echo: bool) -> int:
    """Run a command to its end, its output into `log`; an interrupt is waited for, then enforced."""
    wanted = {**os.environ, "HYDRA_FULL_ERROR": "1", "PYTHONUNBUFFERED": "1", **environment}
    variables = {name: value for name, value in wanted.items() if value is not None}
    with open(log, "ab") as kept, _termination():
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=variables)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                kept.write(line)
                kept.flush()
                if echo:
                    sys.stderr.buffer.write(line)
                    sys.stderr.buffer.flush()
            return process.wait()
        except BaseException:
            # Ctrl-C at a terminal has reached verl already; a second one does no harm.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise


@contextlib.contextmanager
def _termination() -> Iterator[None]:
    """A polite kill counts as an interrupt, so that verl is not left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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


def finished_steps(run: Path) -> int:
    """The step of the last checkpoint, 0 when there is none."""
    try:
        return int((run / "checkpoints" / "latest_checkpointed_iteration.txt").read_text())
    except (OSError, ValueError):
        return 0


def export(config: Config, run: Path) -> Path:
    """Copy the last checkpoint's Hugging Face model to RUN/model, with the settings it was trained with."""
    from ..models.load import SETTINGS
    from ..runs.checkpoint import PARTIAL, replace_folder

    source = run / "checkpoints" / f"global_step_{finished_steps(run)}" / "actor" / "huggingface"
    if not any(source.glob("*.safetensors")):
        raise BadFile(
            f"There is no exported model in {source}. verl writes it with every checkpoint (save_every); was hf_model "
            "taken out of actor_rollout_ref.actor.checkpoint.save_contents?"
        )
    partial = run / f"{PARTIAL}model"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source, partial)
    (partial / SETTINGS).write_text(
        json.dumps({"config": as_dict(config)}, indent=1) + "\n", encoding="utf-8"
    )
    replace_folder(partial, run / "model")
    return run / "model"


def resumed(run: Path, iterations: int | None = None) -> Config:
    """The settings of the run in a folder, perhaps with another length."""
    from dataclasses import replace

    stored = run / "config.json"
    if not stored.is_file():
        raise BadFile(f"There is no run to resume in {run}: {stored} is missing.")
    config = read_config(stored)
    return config if iterations is None else replace(config, iterations=iterations)


def _write_config(config: Config, run: Path, data: Dataset) -> None:
    from ..runs.provenance import provenance

    found = provenance()
    found["versions"] |= {
        name: installed(name) for name in ("verl", "ray", "TransferQueue") if installed(name)
    }
    content: dict[str, Any] = {
        "name": experiment_name(config),
        "config": as_dict(config),
        "estimator": {"name": config.estimator.name, **estimator_settings(config)},
        "engine": "verl",
        "training_rows": data.rows,
        **found,
    }
    write_text(run / "config.json", json.dumps(content, indent=1) + "\n")


def require_extra() -> None:
    """A clear error where verl is not installed at all."""
    if installed("verl") is None:
        raise MissingExtra("verl", "verl", "Training on a cluster")
