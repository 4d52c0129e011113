"""What can be evaluated: a run, a model folder or hub id, a server, a scripted policy."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config.load import build, load
from ..config.schema import Config
from ..config.stage import open_stage
from ..errors import BadFile, BadSetting, UnknownName
from ..models.out_of_memory import out_of_memory_explained
from ..policies.engine import Source, check_engine, open_engine
from ..policies.scripted import SCRIPTED
from .play import logs_folder, make_panel, run_panel, write_logs


@dataclass(frozen=True)
class Target:
    """Something to evaluate, with the settings to evaluate it under."""

    name: str
    """Short name, used for the log folder."""
    model: str
    """Folder or hub id of the model; a scripted policy's name."""
    config: Config
    """Environment, prompts, K and limits."""


def find_target(path: str, preset: str | None, overrides: Sequence[str], checkpoint: str = "last") -> Target:
    """Work out what `path` is; settings come from the run or model itself unless a preset is given.

    Args:
        path: a run's folder, a model's folder, a hub id, `expert` or `random`.
        preset: settings to use instead of the stored ones; needed for models that were not trained here.
        overrides: `key=value` changes, for example `eval.max_steps=50`.
        checkpoint: of a run: `last`, `best` or an iteration.
    """
    folder = Path(path)
    if path in SCRIPTED and not folder.exists():
        return Target(path, path, load(preset or "quickstart", overrides))
    stored: Path | None = None
    model = path
    name = folder.resolve().name if folder.exists() else path.replace("/", "_")
    # A finished run may have been stripped of its checkpoints; its model is enough.
    if (folder / "checkpoints").is_dir() or (folder / "model" / "hgpo.json").is_file():
        stored = folder / "config.json"
        model = str(_run_model(folder, checkpoint))
    elif (folder / "hgpo.json").is_file():
        stored = folder / "hgpo.json"
    elif folder.exists() and not (folder / "config.json").is_file():
        raise BadFile(f"{path} is neither a run (no checkpoints/) nor a model (no config.json).")
    if preset is None and stored is None:
        raise BadSetting(
            f"{path!r} was not trained by hgpo, so its environment and prompts are not known. Name a preset: "
            "--preset alfworld-qwen2.5-1.5b, or any other of `hgpo train --list`."
        )
    if preset is not None:
        return Target(name, model, load(preset, overrides))
    assert stored is not None
    return Target(name, model, with_overrides(_stored(stored), overrides))


def with_overrides(tree: dict[str, Any], overrides: Sequence[str]) -> Config:
    """A stored config with `key=value` changes."""
    from ..config.load import apply

    return build(apply(tree, overrides))


def _stored(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return dict(content["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{path} does not hold the settings of a run: {error}.") from error


def _run_model(run: Path, checkpoint: str) -> Path:
    """The model folder of a run's checkpoint."""
    from .checkpoint import list_checkpoints

    known = {str(int(one.name)): one for one in list_checkpoints(run)}
    if checkpoint == "last" and (run / "model" / "hgpo.json").is_file():
        return run / "model"
    if not known:
        raise BadFile(f"{run} has no checkpoint yet; let it train a little, then evaluate.")
    if checkpoint == "last":
        return list(known.values())[-1] / "model"
    if checkpoint == "best":
        last = list(known.values())[-1]
        best = str(json.loads((last / "state.json").read_text(encoding="utf-8"))["best_iteration"])
        return known.get(best, last) / "model"
    if checkpoint not in known:
        raise UnknownName("checkpoint", checkpoint, ["last", "best", *known])
    return known[checkpoint] / "model"


def evaluate(
    path: str,
    *,
    split: str = "in-domain",
    seeds: Sequence[int] = (123, 456, 789),
    tasks: int = 0,
    temperature: float | None = None,
    preset: str | None = None,
    overrides: Sequence[str] = (),
    checkpoint: str = "last",
    engine: str = "hf",
    url: str = "",
    logs: str | None = None,
    on_episode: Any = None,
) -> dict[str, Any]:
    """Evaluate a run, a model, a server or a scripted policy on a frozen panel; returns the JSON result.

    Args:
        path: see `find_target`; with `engine="endpoint"` the model's name on the server.
        split: `in-domain`, `out-of-domain`, or any other split of the environment.
        seeds: the whole panel is played once per seed.
        tasks: use so many tasks, evenly spaced over the split; 0 uses all.
        temperature: sampling temperature; the run's own evaluation temperature by default.
        preset, overrides, checkpoint: see `find_target`.
        engine, url: a name in `hgpo.policies.engine`: `hf`, `vllm`, or `endpoint` with the server's base address.
        logs: folder for `output_seed{seed}.log` and the result (default `logs/<name>`).
        on_episode: called after every finished episode.
    """
    from ..config.load import as_dict
    from .provenance import provenance

    if not seeds:
        raise BadSetting("No seeds were given; expected at least one, for example --seeds 123,456,789.")
    check_engine(engine)
    if engine == "endpoint":
        target = Target(path.replace("/", "_"), path, load(preset or "household-smollm2", overrides))
    else:
        target = find_target(path, preset, overrides, checkpoint)
    config = target.config
    if config.threads:
        import torch

        torch.set_num_threads(config.threads)
    stage = open_stage(config)
    temperature = config.eval.temperature if temperature is None else temperature
    if target.model in SCRIPTED and not Path(target.model).exists():
        engine = "scripted"
    try:
        with out_of_memory_explained():
            source = Source(config, stage, target.model, url=url, seed=seeds[0])
            with contextlib.closing(open_engine(engine, source)) as opened:
                panel = make_panel(stage, split, tasks, config.eval.max_steps)
                policy = opened.policy(temperature)
                result = run_panel(stage, policy, panel, seeds, temperature, on_episode)
    finally:
        stage.close()
    extra = {
        "target": path,
        "model": target.model,
        "history_length": config.agent.history_length,
        "config": as_dict(replace(config)),
        **provenance(),
    }
    where = write_logs(result, Path(logs) if logs else logs_folder(target.name), extra)
    return {
        **result.summary(),
        **{k: v for k, v in extra.items() if k != "config"},
        "logs": str(where.parent),
    }
