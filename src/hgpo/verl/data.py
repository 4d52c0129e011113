"""The dataset rows that verl reads: one per group to play, in the order in which the local trainer plays them.

Row `i` belongs to iteration `i // tasks + 1`; with `data.shuffle=False` (which `launch` sets) verl trains on the same
tasks in the same iterations as `hgpo train` with the same settings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config.schema import Config
from ..config.stage import open_stage
from ..errors import BadSetting, MissingExtra
from ..files import atomic_path, check_folder
from ..play.stage import Stage
from ..runs.play import make_panel
from ..runs.rollout import draw_tasks
from ..seeds import derive
from .names import AGENT


@dataclass(frozen=True)
class Dataset:
    """Files written for a run."""

    train: Path
    validation: tuple[Path, ...]
    rows: int
    """Training rows."""
    validation_rows: int


def train_rows(config: Config, stage: Stage) -> list[dict[str, Any]]:
    """One row per group of the whole run."""
    tasks = stage.tasks(config.env.split, config.env.tasks)
    count = config.rollout.tasks
    rows: list[dict[str, Any]] = []
    for iteration in range(1, max(1, config.iterations) + 1):
        for group, task in draw_tasks(tasks, (iteration - 1) * count, count, config.seed):
            seed = derive(config.seed, "start", iteration, group)
            rows.append(_row(config, len(rows), task, group, seed, config.env.split, "train"))
    return rows


def validation_rows(config: Config, stage: Stage, split: str) -> list[dict[str, Any]]:
    """One row per task of the split's panel, with the seeds of the local trainer's evaluation."""
    panel = make_panel(stage, split, config.eval.tasks, config.eval.max_steps)
    return [
        _row(config, place, task, task, derive("evaluation", config.eval.seed, task), split, "eval")
        for place, task in enumerate(panel.tasks)
    ]


def _row(
    config: Config, index: int, task: str, group: str, seed: int, split: str, purpose: str
) -> dict[str, Any]:
    return {
        # verl reports validation by data source.
        "data_source": f"{config.env.name.replace('/', '.')}:{split}",
        # The prompts are written step by step by the agent loop; verl only wants the column.
        "prompt": [{"role": "user", "content": task}],
        "agent_name": AGENT,
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {
            "index": index,
            "task": task,
            "group": group,
            "seed": seed,
            "split": split,
            "purpose": purpose,
        },
    }


def planned_data(config: Config, folder: Path) -> Dataset:
    """The files that `write_data` will write, without writing them; the counts are 0."""
    files = tuple(folder / f"validation-{split.replace('/', '.')}.parquet" for split in config.eval.splits)
    return Dataset(folder / "train.parquet", files, 0, 0)


def write_data(config: Config, folder: Path) -> Dataset:
    """Write `train.parquet` and one `validation-SPLIT.parquet` per evaluated split into `folder`."""
    check_folder(folder)
    if not config.eval.splits:
        raise BadSetting("eval.splits is empty; verl needs a validation file: name at least one split.")
    stage = open_stage(config)
    folder.mkdir(parents=True, exist_ok=True)
    planned = planned_data(config, folder)
    train = train_rows(config, stage)
    _write(train, planned.train)
    count = 0
    for split, path in zip(config.eval.splits, planned.validation):
        rows = validation_rows(config, stage, split)
        _write(rows, path)
        count += len(rows)
    stage.close()
    return replace(planned, rows=len(train), validation_rows=count)


def _write(rows: list[dict[str, Any]], path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "verl", "Writing Parquet") from error
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows), temporary)
