"""A run's folder: every file of it by name, read and written here."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...config.schema import Config, experiment_name
from ...config.stored import read_stored
from ...digests import check_files, file_digest, sealed, unsealed
from ...errors import BadFile, BadSetting, DiskFull, MissingExtra
from ...files import PARTIAL, atomic_folder, check_folder, read_json, safe_name, write_json
from ...models.folder import SETTINGS, SaveModel, fill_model, model_settings, write_model
from ...models.tensors import write_tensors
from ...steps.batch import StepBatch
from ..lock import hold
from ..panels import PanelSummary
from . import metrics
from .card import run_card
from .checkpoint import Checkpoint, TrainState
from .description import Description, identity
from .layout import LAYOUT, LOCAL, VERL


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run. Making one touches nothing on disk."""

    path: Path

    @classmethod
    def default(cls, preset: str, config: Config) -> RunFolder:
        """Where a run goes when no folder is named: `runs/PRESET/NAME_seedN`, or below `$CHECKPOINTS_DIR`."""
        base = Path(os.environ.get("CHECKPOINTS_DIR", "runs"))
        given = experiment_name(config)
        if given != safe_name(given):
            raise BadSetting(
                f"name={given!r} cannot name a folder; expected letters, digits and . _ - + @ = (at most 120, no dot "
                "at the start). Choose another name, or the folder itself with --run."
            )
        # A preset may be the path of a .toml file.
        return cls(base / safe_name(Path(preset).name) / f"{given}_seed{config.seed}")

    # What the run is

    @property
    def config_file(self) -> Path:
        """`config.json`, whose presence makes a folder a run."""
        return self.path / "config.json"

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.config_file.is_file()

    def require_new(self) -> None:
        """Refuse a folder that holds a run already, or something else under a name that a run writes.

        A start that was killed before it had done anything is no run: it is taken away.
        """
        if self._only_described():
            self.config_file.unlink()
        if self.exists():
            raise BadSetting(
                f"{self.path} already holds a run. Continue it with --resume, or choose another folder with --run."
            )
        check_folder(self.path)
        taken = [place.name for place in self._own_places()]
        if taken:
            raise BadSetting(
                f"{self.path} holds {', '.join(taken)}, but no run (no {self.config_file.name}): a run here would "
                "overwrite what it did not make. Choose another folder with --run, or move these away."
            )

    def _only_described(self) -> bool:
        """Whether there is nothing here but the `config.json` of a run."""
        if self._own_places() != [self.config_file]:
            return False
        with contextlib.suppress(BadFile):
            return bool(self.description().config)
        return False

    def require_own(self) -> None:
        """Refuse to continue a run beside a model that it did not write and would overwrite."""
        check_folder(self.path)
        for model in (self.start, self.model):
            if model.is_dir() and any(model.iterdir()) and model_settings(model) is None:
                raise BadSetting(
                    f"{model} was not made by the run in {self.path} (no {SETTINGS} in it), which would overwrite it. "
                    "Move it away, then continue."
                )

    def own_files(self) -> list[Path]:
        """The files that belong to the run; none where there is no run."""
        places = self._own_places() if self.exists() else []
        return [
            file
            for place in places
            for file in (place.rglob("*") if place.is_dir() else [place])
            if file.is_file()
        ]

    def _own_places(self) -> list[Path]:
        """What lies here under the names that a run writes at the top of its folder."""
        names = dict.fromkeys(entry.name.partition("/")[0] for entry in LAYOUT)
        return [self.path / name for name in names if os.path.lexists(self.path / name)]

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """For as long as a process trains here; no other can. A start that fails leaves nothing behind.

        Raises:
            FolderBusy: another process trains here.
        """
        with hold(self.path):
            before = self._own_places()
            try:
                yield
            except BaseException as error:
                # A start that took minutes to make is worth keeping where nothing is wrong with it: the disk is full,
                # or somebody pressed Ctrl-C.
                kept = self.start.is_dir() and isinstance(error, (OSError, DiskFull, KeyboardInterrupt))
                if self.config_file not in before and not kept and not self.begun():
                    for place in self._own_places():
                        if place not in before:
                            _remove(place)
                raise

    def begun(self) -> bool:
        """Whether the run came so far that something was learnt or measured."""
        return bool(_children(self.checkpoint_parent)) or self.verl_log.exists() or bool(self.metrics([]))

    def description(self) -> Description:
        """What the run is; fields that an earlier version did not write are empty."""
        content = unsealed(read_json(self.config_file, "the configuration of a run"), self.config_file)
        try:
            return Description(
                name=str(content.get("name", "")),
                config=dict(content.get("config") or {}),
                estimator=dict(content.get("estimator") or {}),
                panels={
                    split: PanelSummary.read(part)
                    for split, part in dict(content.get("panels") or {}).items()
                },
                training_tasks=int(content.get("training_tasks", 0)),
                training_digest=str(content.get("training_digest", "")),
                trainer=str(content.get("trainer", LOCAL)),
                provenance={
                    key: content[key] for key in ("versions", "commit", "platform", "cpus") if key in content
                },
            )
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise BadFile(f"{self.config_file} is not the configuration of a run: {error}.") from error

    def describe(self, description: Description) -> None:
        """Write `config.json`, making the folder if needed."""
        self.path.mkdir(parents=True, exist_ok=True)
        content = asdict(description)
        content["panels"] = {split: panel.content() for split, panel in description.panels.items()}
        provenance = content.pop("provenance")
        write_json(self.config_file, sealed({**content, **provenance}))

    def go_on(self, description: Description) -> None:
        """Write `config.json` of a run that begins here, or of the run here that goes on.

        Raises:
            BadSetting, BadFile: see `continued`.
        """
        self.describe(self.continued(description))

    def continued(self, description: Description) -> Description:
        """What `config.json` has to say of a run that begins here, or of the run here that goes on.

        Raises:
            BadSetting: the run here is another one.
            BadFile: something of it is lost, or its tasks were changed.
        """
        return self.description().continued(description) if self.exists() else description

    def config(self, overrides: Sequence[str] = (), *, allow_env: str | Sequence[str] = ()) -> Config:
        """The run's settings with `key=value` words applied.

        Args:
            overrides: the words.
            allow_env: addresses of environments (`module:Class`) that the run may name.

        Raises:
            BadFile: there is no run here, or its settings cannot be read.
            UntrustedCode: the run names code that was not asked for.
        """
        if not self.exists():
            raise BadFile(f"There is no run to resume in {self.path}: {self.config_file} is missing.")
        stored = self.description().config
        if not stored:
            raise BadFile(f"{self.config_file} does not hold the settings of a run.")
        return read_stored(stored, self.config_file, overrides, allow_env=allow_env)

    # Numbers, iteration by iteration

    @property
    def metrics_file(self) -> Path:
        """`metrics.jsonl`."""
        return self.path / "metrics.jsonl"

    def metrics(self, notes: list[str] | None = None) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl` by iteration; see `hgpo.runs.folder.metrics.read`."""
        return metrics.read(self.metrics_file, notes)

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add the line of an iteration."""
        metrics.append(self.metrics_file, row)

    def rewind_metrics(self, iteration: int) -> None:
        """Keep the lines up to `iteration` only: what came after the checkpoint will be written again."""
        metrics.rewind(self.metrics_file, iteration)

    def complete_metrics(self) -> list[dict[str, Any]]:
        """`metrics`, with nothing lost, repeated or changed: a start that is not the start gives a wrong gain.

        Raises:
            BadFile: an iteration has no line or several, or the lines are not those that the last checkpoint saw.
        """
        saved = self.checkpoints()  # before the lines: a run that is under way writes these first
        rows = self.metrics()
        numbers = [row["iteration"] for row in rows]
        first = numbers[0] if numbers else 0
        # verl counts its first iteration as 1 where nothing is evaluated before it.
        allowed = (0, 1) if self.exists() and self.description().trainer == VERL else (0,)
        missing = next((at for at, number in enumerate(numbers, start=first) if at != number), None)
        if first not in allowed:
            missing = 0
        if missing is None and saved and saved[-1].iteration > (numbers[-1] if numbers else -1):
            missing = len(numbers)
        if missing is not None:
            raise BadFile(
                f"{self.metrics_file} has no line for iteration {missing}: a line was lost or changed. Restore the "
                "file from a copy."
            )
        try:
            seal = saved[-1].seal().get("metrics") if saved else None
        except BadFile:
            if saved[-1].path.exists():
                raise
            return self.complete_metrics()  # a run that is under way has put another in its place
        if seal is not None and metrics.digest(self.metrics_file, saved[-1].iteration) != seal:
            raise BadFile(
                f"{self.metrics_file} is not what was written: the lines up to iteration {saved[-1].iteration} are not "
                "those that its checkpoint saw. A line was changed, repeated or moved. Restore the file from a copy."
            )
        return rows

    def successes(self, split: str) -> dict[int, float]:
        """The share of solved tasks of a split's panel, by the iteration after which it was measured.

        Raises:
            BadFile: see `complete_metrics`; or a value that is no share.
        """
        key = success_key(split)
        found = {row["iteration"]: row[key] for row in self.complete_metrics() if row.get(key) is not None}
        for iteration, value in found.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise BadFile(
                    f"{self.metrics_file} says {key} = {value!r} after iteration {iteration}; expected a share from 0 "
                    "to 1: the line was changed. Restore the file from a copy."
                )
        return found

    # Checkpoints

    @property
    def checkpoint_parent(self) -> Path:
        """`checkpoints/`; verl writes its own checkpoints there."""
        return self.path / "checkpoints"

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints of `hgpo train`, oldest first; a folder of that name was complete when it appeared."""
        return [Checkpoint(path) for path in _children(self.checkpoint_parent) if path.name.isdigit()]

    def resume_point(self) -> Checkpoint | None:
        """The checkpoint to go on from, None for a run that has not made one; everything about it is checked.

        Raises:
            BadFile: something is lost, damaged or of another run; says which file.
        """
        saved = self.checkpoints()
        if not saved:
            if any(row["iteration"] > 0 for row in self.metrics()):
                raise BadFile(
                    f"{self.metrics_file} tells of iterations after the first, but there is no checkpoint in "
                    f"{self.checkpoint_parent}. Restore it from a copy, or start a new run."
                )
            return None
        saved[-1].check(self.description().identity)
        start = saved[-1].seal().get("start")
        if start is not None:
            check_files(self.start, {SETTINGS: start})
        self.complete_metrics()
        return saved[-1]

    def save_checkpoint(
        self,
        state: TrainState,
        tensors: Mapping[str, Any],
        save_model: SaveModel,
        settings: Mapping[str, Any],
        keep: int,
    ) -> Checkpoint:
        """Write a checkpoint and remove those that are neither the best nor among the last `keep`.

        Args:
            state: where the run stands.
            tensors: weights and optimiser moments (torch tensors), each asked for once and let go.
            save_model: writes the policy.
            settings: the run's settings, for the model's `hgpo.json`.
            keep: how many of the latest checkpoints to keep.
        """
        self.checkpoint_parent.mkdir(parents=True, exist_ok=True)
        for leftover in self.checkpoint_parent.glob(f"{PARTIAL}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        target = self.checkpoint_parent / f"{state.iteration:06d}"
        with atomic_folder(target) as partial:
            written = Checkpoint(partial)
            write_tensors(written.weights, tensors.items(), tensors)
            written.model.mkdir()
            base = os.path.relpath(self.start, target / written.model.name) if self.start.is_dir() else None
            fill_model(written.model, save_model, settings, base, state.iteration)
            start = self.start / SETTINGS
            seal = {
                "run": self.description().identity if self.exists() else identity(settings),
                "files": {written.weights.name: file_digest(written.weights)},
                # These name the digests of the files beside them.
                "model": file_digest(written.model / SETTINGS),
                "start": file_digest(start) if start.is_file() else None,
                "metrics": metrics.digest(self.metrics_file, state.iteration),
            }
            content = sealed({**asdict(state), "seal": seal})
            (partial / "state.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
        known = self.checkpoints()
        for old in known[:-keep]:
            if old.iteration != state.best_iteration:
                shutil.rmtree(old.path, ignore_errors=True)
        return known[-1]

    def verl_step(self) -> int:
        """The step of verl's last checkpoint, 0 when there is none."""
        try:
            return int((self.checkpoint_parent / "latest_checkpointed_iteration.txt").read_text())
        except (OSError, ValueError):
            return 0

    def verl_model(self, step: int) -> Path:
        """The Hugging Face model in verl's checkpoint of a step."""
        return self.checkpoint_parent / f"global_step_{step}" / "actor" / "huggingface"

    def verl_models(self) -> dict[int, Path]:
        """The Hugging Face models in verl's checkpoints by step; those without weights are left out."""
        models = {}
        for path in _children(self.checkpoint_parent):
            step = path.name.removeprefix("global_step_")
            if step != path.name and step.isdigit() and any(self.verl_model(int(step)).glob("*.safetensors")):
                models[int(step)] = self.verl_model(int(step))
        return models

    # Models

    @property
    def start(self) -> Path:
        """`start/`, the policy that the run began with, if it made one."""
        return self.path / "start"

    @property
    def model(self) -> Path:
        """`model/`, the policy at the end."""
        return self.path / "model"

    def export(self, save_model: SaveModel, settings: Mapping[str, Any], iteration: int) -> Path:
        """Write `model/`, the policy after so many iterations, with its card."""
        write_model(self.model, save_model, settings, iteration, self.card(settings, iteration))
        return self.model

    def card(self, settings: Mapping[str, Any], iteration: int) -> str:
        """What the policy after so many iterations is, from the run's own record."""
        described = self.description() if self.exists() else Description(config=settings)
        return run_card(self.path.resolve().name, described, self.metrics([]), iteration)

    # Rollouts

    @property
    def rollouts(self) -> Path:
        """`rollouts/`."""
        return self.path / "rollouts"

    def rollout_files(self) -> dict[Path, int]:
        """The kept rollouts with the iteration of each, in order."""
        files = {}
        for path in _children(self.rollouts):
            number = path.name.partition(".")[0].partition("-")[0]
            if number.isdigit() and path.name.endswith((".parquet", ".jsonl.gz")):
                files[path] = int(number)
        return files

    def write_rollouts(self, batch: StepBatch, iteration: int, part: int = 0) -> Path:
        """Keep an iteration's steps: Parquet, or JSON lines without pyarrow.

        Args:
            batch: the steps.
            iteration: the iteration they belong to.
            part: where several updates share an iteration's number (an asynchronous mode of verl), which one.
        """
        self.rollouts.mkdir(parents=True, exist_ok=True)
        name = f"{iteration:06d}-{part}" if part else f"{iteration:06d}"
        return _write_steps(batch, self.rollouts / f"{name}.parquet", self.rollouts / f"{name}.jsonl.gz")

    def write_not_finite(self, batch: StepBatch) -> Path:
        """Keep the batch that gave a loss or gradient that is not finite."""
        path = self.path / "not_finite.jsonl.gz"
        batch.write(path)
        return path

    # The outcome

    @property
    def results_file(self) -> Path:
        """`results.json`."""
        return self.path / "results.json"

    def results(self) -> dict[str, Any] | None:
        """How the run ended; None while it has not."""
        return read_json(self.results_file, "the outcome of a run") if self.results_file.is_file() else None

    def write_results(self, content: Mapping[str, Any]) -> None:
        """Write `results.json`."""
        write_json(self.results_file, content)

    @property
    def curves(self) -> Path:
        """`curves.png`."""
        return self.path / "curves.png"

    # What only verl and the trackers write

    @property
    def data(self) -> Path:
        """`data/`, the dataset rows that verl reads."""
        return self.path / "data"

    @property
    def verl_log(self) -> Path:
        """`verl.log`, everything that verl printed."""
        return self.path / "verl.log"

    @property
    def hydra(self) -> Path:
        """`hydra/`, verl's resolved configuration."""
        return self.path / "hydra"

    @property
    def rows_file(self) -> Path:
        """`rows.parquet` of a dry run."""
        return self.path / "rows.parquet"

    @property
    def tensorboard(self) -> Path:
        """`tensorboard/`."""
        return self.path / "tensorboard"


def success_key(split: str) -> str:
    """The name in `metrics.jsonl` of the success on a split's panel."""
    return f"eval/{split}/success"


def _write_steps(batch: StepBatch, parquet: Path, lines: Path) -> Path:
    try:
        batch.write(parquet)
    except MissingExtra:
        batch.write(lines)
        return lines
    return parquet


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _children(folder: Path) -> list[Path]:
    """What lies in a folder, sorted by name; nothing where there is none."""
    return sorted(folder.iterdir()) if folder.is_dir() else []
