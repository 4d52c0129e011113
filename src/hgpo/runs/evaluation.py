"""What can be evaluated: a run, a model folder or hub id, a server, a scripted policy."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..config.load import as_dict, load
from ..config.schema import Config, EvalConfig, check_temperature
from ..config.stage import open_stage
from ..config.stored import read_stored
from ..errors import BadFile, BadSetting, NotWritten
from ..files import check_folder
from ..models.folder import SETTINGS, model_settings
from ..models.out_of_memory import out_of_memory_explained
from ..policies.engine import Source, check_engine, open_engine
from ..policies.http import masked
from ..policies.scripted import SCRIPTED
from ..settings import settings_of
from .folder import EvaluationFolder, RunFolder, RunPolicies
from .peers import Alone, Peers
from .play import Evaluation, make_panel, run_panel, write_logs
from .provenance import provenance

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """Something to evaluate, with the settings to evaluate it under."""

    name: str
    """Short name, used for the log folder."""
    model: str
    """Folder or hub id of the model; a scripted policy's name."""
    config: Config
    """Environment, prompts, K and limits."""


def find_target(
    path: str,
    preset: str | None,
    overrides: Sequence[str],
    checkpoint: str = "last",
    *,
    allow_env: str | Sequence[str] = (),
) -> Target:
    """Work out what `path` is; settings come from the run or model itself unless a preset is given.

    Args:
        path: a run's folder, a model's folder, a hub id, `expert` or `random`.
        preset: settings to use instead of the stored ones; needed for models that were not trained here.
        overrides: `key=value` changes, for example `eval.max_steps=50`.
        checkpoint: of a run: `last`, `best` or an iteration.
        allow_env: addresses of environments (`module:Class`) that the run or model may name.

    Raises:
        UntrustedCode: the run or model names code that was not asked for.
    """
    folder = Path(path)
    if path in SCRIPTED and not folder.exists():
        return Target(path, path, load(preset or "quickstart", overrides))
    run = RunFolder(folder)
    name = folder.resolve().name if folder.exists() else path.replace("/", "_")
    stored: Mapping[str, Any] | None = None
    policies = RunPolicies(run)
    if policies.exist():
        model = str(policies.find(checkpoint))
        stored, where = run.description().config if preset is None else None, run.config_file
    else:
        model, stored, where = path, model_settings(folder), folder / SETTINGS
        if stored is None and run.exists() and run.description().config:
            raise BadFile(f"{path} has no checkpoint yet; let it train a little, then evaluate.")
        if stored is None and folder.exists() and not run.exists():
            raise BadFile(f"{path} is neither a run (no checkpoints/) nor a model (no config.json).")
    if preset is not None:
        return Target(name, model, load(preset, overrides))
    if not stored:
        raise BadSetting(
            f"{path!r} was not trained by hgpo, so its environment and prompts are not known. Name a preset: "
            "--preset alfworld-qwen2.5-1.5b, or any other of `hgpo train --list`."
        )
    return Target(name, model, read_stored(stored, where, overrides, allow_env=allow_env))


def _check_protocol(seeds: Sequence[int], tasks: int, temperatures: Sequence[float | None]) -> None:
    known = settings_of(EvalConfig)
    if not seeds:
        raise BadSetting("No seeds were given; expected at least one, for example --seeds 123,456,789.")
    for seed in seeds:
        known["seed"].check(seed, "seeds")
    known["tasks"].check(tasks, "tasks")
    for temperature in temperatures:
        if temperature is not None:
            check_temperature(known["temperature"].check(temperature, "temperature"), "temperature")


def evaluate(
    path: str, *, split: str = "", temperature: float | None = None, **options: Any
) -> dict[str, Any]:
    """Evaluate a run, a model, a server or a scripted policy on one frozen panel; returns the JSON result.

    Args:
        path, options: see `evaluations`.
        split: `in-domain`, `out-of-domain`, or any other split of the environment; the first that training evaluates on
            when left out.
        temperature: sampling temperature; the run's own evaluation temperature by default.
    """
    (result,) = evaluations(path, splits=[split], temperatures=[temperature], **options)
    return result


def evaluations(
    path: str,
    *,
    splits: Sequence[str] = ("",),
    seeds: Sequence[int] = (123, 456, 789),
    tasks: int = 0,
    temperatures: Sequence[float | None] = (None,),
    preset: str | None = None,
    overrides: Sequence[str] = (),
    checkpoint: str = "last",
    engine: str = "hf",
    url: str = "",
    logs: str | None = None,
    allow_env: str | Sequence[str] = (),
    on_episode: Any = None,
) -> Generator[dict[str, Any], None, None]:
    """Evaluate on the panel of every split at every temperature; yields each JSON result once its files are written.

    The model is read once. Under torchrun every process plays its share of the episodes; all get the results, the
    first writes them.

    Args:
        path: see `find_target`; with `engine="endpoint"` the model's name on the server.
        splits: names of splits; an empty one is the first that training evaluates on.
        seeds: a whole panel is played once per seed.
        tasks: use so many tasks, evenly spaced over a split; 0 uses all.
        temperatures: sampling temperatures; None is the run's own evaluation temperature.
        preset, overrides, checkpoint: see `find_target`.
        engine, url: a name in `hgpo.policies.engine`: `hf`, `vllm`, or with the server's base address `endpoint` (any
            OpenAI-compatible server) or `completions` (a vLLM server of the model in `path`, asked with token ids).
        allow_env: see `find_target`.
        logs: folder for `output_seed{seed}.log` and the result (default `logs/<name>`). Several splits have folders of
            their own in it (`in-domain`), and so have several temperatures (`temperature-0.4`).
        on_episode: called after every finished episode.
    """
    _check_protocol(seeds, tasks, temperatures)
    if engine == "endpoint":
        target = Target(path.replace("/", "_"), path, load(preset or "household-smollm2", overrides))
    else:
        target = find_target(path, preset, overrides, checkpoint, allow_env=allow_env)
        if target.model in SCRIPTED and not Path(target.model).exists():
            engine = "scripted"
    policies = RunPolicies(RunFolder(Path(path)))
    iteration = None
    if engine != "endpoint" and policies.exist():
        policies.check(Path(target.model))
        iteration = policies.iteration(Path(target.model))
    entry = check_engine(engine)
    config = target.config
    if config.threads and "torch" in entry.packages:
        import torch

        torch.set_num_threads(config.threads)
    place = EvaluationFolder(Path(logs)) if logs else EvaluationFolder.default(target.name)
    check_folder(place.path)
    first = (config.eval.splits or ("in-domain",))[0]
    heats = _distinct(config.eval.temperature if one is None else one for one in temperatures)
    with contextlib.closing(open_stage(config)) as stage:
        panels = [
            make_panel(stage, split, tasks, config.eval.max_steps)
            for split in _distinct(one or first for one in splits)
        ]
        with out_of_memory_explained(), _peers(config.device) as peers:
            source = Source(config, stage, target.model, url=url)
            with contextlib.closing(open_engine(engine, source)) as opened:
                for temperature, panel in itertools.product(heats, panels):
                    policy = opened.policy(temperature)
                    result = run_panel(stage, policy, panel, seeds, temperature, on_episode, peers)
                    extra = {
                        "target": path,
                        "model": target.model,
                        "iteration": iteration,
                        "history_length": config.agent.history_length,
                        "config": as_dict(config),
                        **provenance(),
                    }
                    if engine in ("endpoint", "completions"):
                        extra["server"] = masked(url)
                    folder = place.within(panel.split) if len(panels) > 1 else place
                    folder = folder.within(f"temperature-{temperature:g}") if len(heats) > 1 else folder
                    yield _written(result, folder, extra, engine, first_process=not peers.rank)


def _written(
    result: Evaluation, place: EvaluationFolder, extra: dict[str, Any], engine: str, *, first_process: bool
) -> dict[str, Any]:
    """The JSON result, after the first process has put it and its logs into `place`.

    Raises:
        NotWritten: it has the result, too.
    """
    identity = [
        *_weights(extra["model"]),
        engine,
        extra.get("server"),
        result.panel.digest,
        list(result.seeds),
    ]
    folder = replace(place, evaluation=_digest([*identity, result.temperature, extra["config"]]))
    found = {
        **result.summary(),
        **{k: v for k, v in extra.items() if k != "config"},
        "evaluation": folder.evaluation,
        "logs": str(folder.path),
    }
    if not first_process:
        return {**found, "files": []}
    try:
        written = write_logs(result, folder, extra)
    except (OSError, BadFile) as error:
        reason = f"The evaluation was made, but its files could not be written to {folder.path}: {error}"
        raise NotWritten(reason, {**found, "logs": "", "files": []}) from error
    return {**found, "files": [str(path) for path in written]}


def _distinct(values: Iterable[T]) -> list[T]:
    """Each value once, in order."""
    return list(dict.fromkeys(values))


@contextlib.contextmanager
def _peers(device: str) -> Iterator[Peers]:
    """The processes that torchrun started, connected; without it this one alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Alone()
        return
    from ..learn.distributed import Processes
    from ..models.device import pick_device

    with contextlib.closing(Processes(pick_device(device))) as processes:
        yield processes


def _weights(model: str) -> list[Any]:
    """What tells the weights of a model from those that a folder of this name held before."""
    folder = Path(model)
    if not folder.is_dir():
        return [model]
    files = sorted(path for path in folder.iterdir() if path.is_file())
    stamps = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return [str(folder.resolve()), stamps]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:8]
