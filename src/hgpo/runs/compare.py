"""Runs side by side: one group per setting, intervals over its training seeds, differences, never across panels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..config.schema import Config
from ..errors import BadFile, BadSetting, UnknownName
from ..files import plain
from ..settings import settings_of
from .differences import differences
from .folder import LENGTH, LOCAL, RunFolder
from .naming import differing, titles
from .panels import PanelSummary, same_panel
from .statistics import over_runs, t95

NOISE = "± the pair's own 95% interval / the same from the noise of all settings"


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run."""

    run: str
    name: str
    """What the run is called by itself."""
    trainer: str
    settings: Mapping[str, Any]
    """The settings that tell it from runs of other groups: all but its seed, its length and the like."""
    group: str
    """Runs that differ only in their seed share it."""
    seed: int
    iterations: tuple[int, ...]
    success: tuple[float, ...]
    panel: PanelSummary


def read_curve(run: Path, split: str) -> Curve:
    """The evaluation curve of a run on a split."""
    folder = RunFolder(run)
    if not folder.exists():
        raise BadFile(
            f"{run} is not a run: {folder.config_file} is missing. Name the folders given by --run."
        )
    stored = folder.description()
    if not stored.panels:
        raise BadFile(
            f"{folder.config_file} names no task panels: the run was not evaluated while it trained (eval.every=0), or "
            "an earlier version of the package wrote it. Only runs that were evaluated can be compared."
        )
    if split not in stored.panels:
        raise UnknownName(f"evaluated split of {run}", split, stored.panels)
    points = folder.successes(split)
    if not points:
        raise BadFile(f"{run} has no evaluation on {split!r} yet.")
    # Runs are read at one iteration, so how far each was to go counts only where the learning rate falls by it.
    falls = (stored.config.get("update") or {}).get("schedule", "constant") != "constant"
    apart = {"seed", "track", "threads", "name", *LENGTH} - ({"iterations"} if falls else set())
    same = {key: value for key, value in stored.config.items() if key not in apart}
    if isinstance(same.get("rollout"), dict):
        # How many of its steps a run keeps on disk changes nothing in it.
        same["rollout"] = {key: value for key, value in same["rollout"].items() if key != "keep_every"}
    # `depth` and others follow from other settings; config.json has them as they were.
    resolved = {key: value for key, value in stored.estimator.items() if key != "name"}
    if isinstance(same.get("estimator"), dict):
        same["estimator"] = {
            **same["estimator"],
            "settings": resolved or same["estimator"].get("settings", {}),
        }
    return Curve(
        str(run),
        stored.name,
        stored.trainer,
        {**same, "name": stored.config.get("name", "")},
        json.dumps([stored.name, stored.trainer, same], sort_keys=True),
        settings_of(Config)["seed"].check(stored.config.get("seed", 0), f"{folder.config_file}: seed"),
        tuple(points),
        tuple(map(float, points.values())),
        stored.panels[split],
    )


def compare(runs: Sequence[str], split: str = "in-domain") -> dict[str, Any]:
    """Table and curves of the runs, grouped by setting.

    All are read at the last iteration at which every one of them was evaluated, wherever they ended.

    Raises:
        PanelMismatch: the runs were evaluated on different panels.
        BadSetting: a run was given twice, or two runs have no evaluation of the same iteration.
    """
    _distinct(runs)
    curves = [read_curve(Path(run), split) for run in runs]
    same_panel({curve.run: curve.panel for curve in curves})
    common = _common_iterations(curves)
    members: dict[str, list[Curve]] = {}
    for curve in curves:
        members.setdefault(curve.group, []).append(curve)
    groups: list[dict[str, Any]] = []
    apart = differing([group[0].settings for group in members.values()])
    readings: dict[str, dict[int, float]] = {}
    named = _titles([group[0] for group in members.values()])
    for group, title, settings in zip(members.values(), named, apart):
        _one_run_per_seed(group)
        by_iteration = [dict(zip(one.iterations, one.success)) for one in group]
        last = [values[common[-1]] for values in by_iteration]
        readings[title] = {one.seed: value for one, value in zip(group, last)}
        shared = sorted(set.intersection(*(set(one.iterations) for one in group)))
        table = np.array([[values[iteration] for iteration in shared] for values in by_iteration])
        half = np.full(len(shared), np.nan)
        if len(group) > 1:
            half = t95(len(group) - 1) * table.std(axis=0, ddof=1) / len(group) ** 0.5
        groups.append(
            {
                "name": title,
                "settings": {name: word for name, word in settings.items() if name != "name"},
                "runs": [one.run for one in group],
                "iterations": shared,
                "mean": table.mean(axis=0).tolist(),
                "half_width": [None if np.isnan(value) else float(value) for value in half],
                "ended": [one.iterations[-1] for one in group],
                "start": plain(over_runs([values[common[0]] for values in by_iteration])),
                "last": plain(over_runs(last)),
                "area": plain(
                    over_runs([float(np.mean([values[i] for i in common])) for values in by_iteration])
                ),
            }
        )
    pairs = [
        plain(asdict(one)) | {"points": one.points(), "clear": one.clear} for one in differences(readings)
    ]
    return {
        "split": split,
        "panel": curves[0].panel.digest,
        "iteration": common[-1],
        "groups": groups,
        "differences": pairs,
    }


def _titles(curves: Sequence[Curve]) -> list[str]:
    """What each group is called: what differs between them, and which trainer made it unless it is ours."""
    return titles(
        [one.settings for one in curves],
        [one.name for one in curves],
        ["" if one.trainer == LOCAL else f", {one.trainer}" for one in curves],
    )


def _distinct(runs: Sequence[str]) -> None:
    """Refuse a folder that was given twice, however it is spelt or linked."""
    seen: dict[Any, str] = {}
    for run in runs:
        place = Path(run)
        status = place.stat() if place.exists() else None
        key = (status.st_dev, status.st_ino) if status else place.resolve()
        if key in seen:
            raise BadSetting(
                f"{seen[key]} and {run} are the same run; expected each once, because a run counted twice makes the "
                f"intervals too narrow. Remove one."
            )
        seen[key] = run


def _one_run_per_seed(group: Sequence[Curve]) -> None:
    """Refuse two runs of one setting and seed, such as a run and its copy."""
    seen: dict[int, Curve] = {}
    for one in group:
        if one.seed in seen:
            raise BadSetting(
                f"{seen[one.seed].run} and {one.run} have the same settings and the same seed ({one.seed}), so they "
                f"are one run done twice or a copy; expected one run of each seed. Remove one."
            )
        seen[one.seed] = one


def _common_iterations(curves: Sequence[Curve]) -> list[int]:
    """The iterations at which every run was evaluated."""
    common = sorted(set.intersection(*(set(one.iterations) for one in curves)))
    if not common:
        ends = ", ".join(f"{one.run} ({one.iterations[0]} to {one.iterations[-1]})" for one in curves)
        raise BadSetting(
            f"The runs have no evaluation of the same iteration: {ends}. Train them with the same eval.every, and "
            f"compare runs that were evaluated equally far."
        )
    return common


def where_read(result: dict[str, Any]) -> str:
    """Which iteration a comparison is about, and which runs went on after it."""
    at = result["iteration"]
    longer = [
        f"{run} to {end}"
        for group in result["groups"]
        for run, end in zip(group["runs"], group["ended"])
        if end > at
    ]
    if not longer:
        return f"last: iteration {at}"
    return f"last: iteration {at}, the last at which all were evaluated; further went {', '.join(longer)}"


def table_text(result: dict[str, Any]) -> str:
    """The comparison as aligned text."""
    width = max(len("setting"), *(len(group["name"]) for group in result["groups"]))
    lines = [
        where_read(result),
        f"{'setting':<{width}} {'runs':>4}  {'start':>6}  {'last':>6}  {'95% interval':>16}  {'mean curve':>10}",
    ]
    for group in result["groups"]:
        last = group["last"]
        interval = "one run" if last["low"] is None else f"[{last['low']:.1%}, {last['high']:.1%}]"
        lines.append(
            f"{group['name']:<{width}} {len(group['runs']):>4}  {group['start']['mean']:>6.1%}  {last['mean']:>6.1%}  "
            f"{interval:>16}  {group['area']['mean']:>10.1%}"
        )
    if result["differences"]:
        lines += ["", f"last, seed by seed, in points: {NOISE}"]
    for pair in result["differences"]:
        verdict = (
            "beyond the noise" if pair["clear"] else ("within the noise" if pair["seeds"] > 1 else "one seed")
        )
        lines.append(f"{pair['other']} - {pair['one']}: {pair['points']}  {verdict}")
    return "\n".join(lines)
