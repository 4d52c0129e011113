"""The folder of a run: what lies in it, and the only code that reads and writes it.

`hgpo train` and `hgpo verl launch` write the same files with the same fields, so `hgpo eval`, `hgpo compare`,
`hgpo inspect` and `--resume` need not know which of them trained a run. `LAYOUT` lists everything; docs/training.md
shows it.

Nothing is ever half there: files and folders are written under another name, flushed to disk and renamed, so a kill
at any instant leaves the last good state. Weights are safetensors, everything else is JSON or Parquet; no pickles.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..config import as_dict, build, estimator_settings
from ..config.schema import Config, experiment_name
from ..config.stored import read_stored, same_env
from ..errors import BadFile, BadSetting, DiskFull, MissingExtra, UnknownName
from ..files import PARTIAL, atomic_folder, check_folder, safe_name, write_text
from ..models.folder import (
    SETTINGS,
    SaveModel,
    check_model,
    fill_model,
    model_iteration,
    model_settings,
    write_model,
)
from ..models.seal import check_files, content_digest, file_digest, sealed, unsealed
from ..steps.batch import StepBatch
from .lock import hold
from .panels import Panel, PanelSummary, tasks_digest
from .provenance import provenance

LOCAL, VERL = "hgpo", "verl"
"""The trainers."""
LENGTH = ("iterations", "save_every", "keep")
"""The settings that may change when a run is continued; all others make it what it is."""
OTHER_CHECKPOINT = "Restore it from a copy, or delete the checkpoint's folder to go on from the one before"


@dataclass(frozen=True)
class Entry:
    """One file or folder of a run."""

    name: str
    """Its path in the run folder; N stands for a digit of an iteration."""
    content: str
    """What it holds."""
    trainer: str = ""
    """The only trainer that writes it; empty for both."""


LAYOUT = (
    Entry("config.json", "settings, estimator, task panels, trainer, package versions and commit"),
    Entry("metrics.jsonl", "one line per iteration"),
    Entry(
        "rollouts/NNNNNN.parquet",
        "steps and advantages of every `rollout.keep_every`-th iteration (`.jsonl.gz` without pyarrow)",
    ),
    Entry("start/", "the policy that the run began with, if the run made it (`model=tiny`, `warm.episodes`)"),
    Entry(
        "checkpoints/NNNNNN/",
        "`trainer.safetensors` (weights and optimiser), `state.json` and `model/` (of a LoRA run the adapters alone); "
        "the best and the last are kept",
        LOCAL,
    ),
    Entry(
        "checkpoints/global_step_N/", "verl's own checkpoints, with the model in Hugging Face format", VERL
    ),
    Entry("model/", "the policy at the end, in Hugging Face format, with its settings in `hgpo.json`"),
    Entry("results.json", "the outcome: how the run ended, success at the start, at the end and at best"),
    Entry("curves.png", "learning curves (with matplotlib)"),
    Entry("not_finite.jsonl.gz", "the batch that gave a loss or gradient that is not finite", LOCAL),
    Entry("tensorboard/", "TensorBoard's files (`track.tensorboard=true`)", LOCAL),
    Entry("data/", "the dataset rows: one per group to play", VERL),
    Entry("verl.log", "everything that verl printed", VERL),
    Entry("hydra/", "verl's resolved configuration", VERL),
    Entry("rows.parquet", "of a dry run: all steps with the advantages that verl trained on", VERL),
)


@dataclass(frozen=True)
class Description:
    """What a run is: the content of `config.json`."""

    name: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    """All settings, resolved."""
    estimator: Mapping[str, Any] = field(default_factory=dict)
    """The estimator's name and settings."""
    panels: Mapping[str, PanelSummary] = field(default_factory=dict)
    """The evaluated task panel of each split."""
    training_tasks: int = 0
    training_digest: str = ""
    """Of the training tasks; empty in records of earlier versions."""
    trainer: str = LOCAL
    """`hgpo` or `verl`."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Package versions, commit and machine."""

    @classmethod
    def of(
        cls, config: Config, panels: Mapping[str, Panel], training_tasks: Sequence[str], trainer: str = LOCAL
    ) -> Description:
        """Of a run that begins here and now."""
        return cls(
            experiment_name(config),
            as_dict(config),
            {"name": config.estimator.name, **estimator_settings(config)},
            {split: panel.summary() for split, panel in panels.items()},
            len(training_tasks),
            tasks_digest(training_tasks),
            trainer,
            provenance(),
        )

    @property
    def identity(self) -> str:
        """The digest of the settings that make the run what it is: all but its length."""
        return identity(self.config)

    def continued(self, now: Description) -> Description:
        """This run, gone on with here and now: its own settings with the length of `now`.

        Settings that a later version of the package added keep out of it: what the run is does not change.

        Raises:
            BadSetting: `now` is another run.
            BadFile: the tasks are not those that the run was begun with.
        """
        changed = ["env"]
        if same_env(self.config, now.config):
            # To build settings is to import their environment: only the one that was asked for.
            own = as_dict(build(self.config))
            changed = [name for name in own if name not in LENGTH and own[name] != now.config.get(name)]
        if changed:
            raise BadSetting(
                f"{', '.join(changed)} cannot be changed on resuming: the run goes on with its own settings. "
                f"Only {', '.join(LENGTH)} can. Start a new run for the rest."
            )
        if self.trainer != now.trainer:
            raise BadSetting(
                f"The run is one of {_COMMANDS[self.trainer]}, and cannot be continued by {_COMMANDS[now.trainer]}."
            )
        for split, panel in self.panels.items():
            found = now.panels.get(split)
            if found is not None and found.digest != panel.digest:
                raise BadFile(
                    f"The tasks of {split!r} are not those that the run was begun with (panel {found.digest}, expected "
                    f"{panel.digest}): data of the environment was changed. Restore it, or start a new run."
                )
        if self.training_digest and self.training_digest != now.training_digest:
            raise BadFile(
                f"The training tasks ({now.training_tasks}, digest {now.training_digest}) are not those that the run "
                f"was begun with ({self.training_tasks}, digest {self.training_digest}): data of the environment was "
                "changed. Restore it, or start a new run."
            )
        return replace(
            now,
            name=self.name,
            config={**self.config, **{name: now.config[name] for name in LENGTH}},
            estimator=self.estimator or now.estimator,
            panels=self.panels or now.panels,
        )


_COMMANDS = {LOCAL: "`hgpo train`", VERL: "`hgpo verl`"}


def identity(config: Mapping[str, Any]) -> str:
    """The digest of all settings but those of a run's length."""
    return content_digest({name: value for name, value in config.items() if name not in LENGTH})


@dataclass(frozen=True)
class TrainState:
    """Where a run stands, besides its weights: the content of `state.json`."""

    iteration: int
    """Finished iterations."""
    cursor: int
    """Tasks handed out so far."""
    updates: int
    """Optimiser steps so far."""
    best_iteration: int = -1
    """The iteration with the best evaluation so far, -1 before the first."""
    best_success: float = -1.0
    """Its success."""
    seconds: float = 0.0
    """Time spent training so far."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint of `hgpo train`."""

    path: Path

    @property
    def iteration(self) -> int:
        """Finished iterations."""
        return int(self.path.name)

    @property
    def model(self) -> Path:
        """The policy in Hugging Face format."""
        return self.path / "model"

    @property
    def weights(self) -> Path:
        """Weights and optimiser moments, in the type they are trained in."""
        return self.path / "trainer.safetensors"

    def state(self) -> TrainState:
        """Where the run stood."""
        content = {name: value for name, value in self._content().items() if name != "seal"}
        try:
            return TrainState(**content)
        except TypeError as error:
            raise self._damaged(error) from error

    def seal(self) -> Mapping[str, Any]:
        """The digests of what the checkpoint stands for; empty in checkpoints of earlier versions."""
        found = self._content().get("seal", {})
        return found if isinstance(found, dict) else {}

    def check(self, run: str) -> None:
        """Compare everything in the checkpoint with its digests, and the run that it was made by.

        Args:
            run: `Description.identity` of the run that the checkpoint lies in.

        Raises:
            BadFile: a file is missing, damaged or of another run; says which.
        """
        check_files(self.path, self.check_owner(run).get("files", {}), OTHER_CHECKPOINT)
        check_model(self.model)

    def check_owner(self, run: str) -> Mapping[str, Any]:
        """The part of `check` that reads no weights: who loads the policy compares them; returns all digests."""
        seal = self.seal()
        if seal.get("run", run) != run:
            raise BadFile(
                f"The checkpoint {self.path} belongs to a run with other settings than those in config.json: one of "
                f"the two was edited, or comes from another run. {OTHER_CHECKPOINT}."
            )
        if "model" in seal:
            check_files(self.model, {SETTINGS: seal["model"]}, OTHER_CHECKPOINT)
        return seal

    def _content(self) -> dict[str, Any]:
        path = self.path / "state.json"
        try:
            return unsealed(_read_json(path, "the state of a run"), path)
        except BadFile as error:
            raise self._damaged(error) from error

    def tensors(self) -> dict[str, Any]:
        """Weights and optimiser moments (torch tensors)."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return dict(load_file(self.weights))
        except (OSError, ValueError, SafetensorError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> BadFile:
        return BadFile(
            f"The checkpoint {self.path} is damaged: {str(error).rstrip('.')}. Delete its folder to go on from the one "
            "before."
        )


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
        """Refuse a folder that holds a run already, or something else under a name that a run writes."""
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
            names = {entry.name.partition("/")[0] for entry in LAYOUT}
            before = {name for name in names if os.path.lexists(self.path / name)}
            try:
                yield
            except (OSError, DiskFull):
                raise  # a full disk, say: what there is may be continued
            except Exception:
                if self.config_file.name not in before and not self.begun():
                    for name in names - before:
                        _remove(self.path / name)
                raise

    def begun(self) -> bool:
        """Whether the run came so far that something was learnt or measured."""
        return bool(_children(self.checkpoint_parent)) or self.verl_log.exists() or bool(self.metrics([]))

    def description(self) -> Description:
        """What the run is; fields that an earlier version did not write are empty."""
        content = unsealed(_read_json(self.config_file, "the configuration of a run"), self.config_file)
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
        _write_json(self.config_file, sealed({**content, **provenance}))

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
        """The lines of `metrics.jsonl` by iteration; of two lines about one iteration the later counts.

        A last line that is not complete (the run is writing it, or was killed) is left out.

        Args:
            notes: gets a sentence about lines that were left out; then a damaged line is no error.

        Raises:
            BadFile: a line before the last is damaged, and no notes are taken.
        """
        rows: dict[int, dict[str, Any]] = {}
        lines = self.metrics_file.read_bytes().splitlines() if self.metrics_file.is_file() else []
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                rows[int(row["iteration"])] = row
            except (ValueError, KeyError, TypeError) as error:
                problem = f"{self.metrics_file}, line {number} is not the metrics of an iteration ({error})"
                if notes is not None:
                    notes.append(f"the rest of {self.metrics_file.name} was left out: {problem}.")
                elif number < len(lines):
                    raise BadFile(f"{problem}. Restore the file, or remove the line.") from error
                break
        return [row for _, row in sorted(rows.items())]

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add the line of an iteration."""
        with open(self.metrics_file, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
            out.flush()
            os.fsync(out.fileno())

    def rewind_metrics(self, iteration: int) -> None:
        """Keep the lines up to `iteration` only: what came after the checkpoint will be written again."""
        kept = [row for row in self.metrics() if row["iteration"] <= iteration]
        write_text(self.metrics_file, "".join(json.dumps(row) + "\n" for row in kept))

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
        if seal is not None and self._metrics_digest(saved[-1].iteration) != seal:
            raise BadFile(
                f"{self.metrics_file} is not what was written: the lines up to iteration {saved[-1].iteration} are not "
                "those that its checkpoint saw. A line was changed, repeated or moved. Restore the file from a copy."
            )
        return rows

    def _metrics_digest(self, iteration: int) -> str:
        """Of the lines up to an iteration, each counted as often as it is there."""
        lines = self.metrics_file.read_bytes().splitlines() if self.metrics_file.is_file() else []
        rows = []
        for line in lines:
            with contextlib.suppress(ValueError):  # the last one, when a kill cut it off
                rows.append(json.loads(line))
        return content_digest([row for row in rows if row["iteration"] <= iteration])

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
            tensors: weights and optimiser moments (torch tensors).
            save_model: writes the policy.
            settings: the run's settings, for the model's `hgpo.json`.
            keep: how many of the latest checkpoints to keep.
        """
        from safetensors.torch import save_file

        self.checkpoint_parent.mkdir(parents=True, exist_ok=True)
        for leftover in self.checkpoint_parent.glob(f"{PARTIAL}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        target = self.checkpoint_parent / f"{state.iteration:06d}"
        with atomic_folder(target) as partial:
            written = Checkpoint(partial)
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, written.weights)
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
                "metrics": self._metrics_digest(state.iteration),
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
        """Write `model/`, the policy after so many iterations."""
        write_model(self.model, save_model, settings, iteration)
        return self.model

    def model_iteration(self, model: Path) -> int | None:
        """After how many iterations one of the run's policies was written; None where that is not known."""
        for iteration, path in self.saved_models().items():
            if path == model:
                return iteration
        found = model_iteration(model)
        if found is None and model == self.model:
            # Earlier versions wrote it into the outcome alone.
            found = (self.results() or {}).get("iterations")
        return found if isinstance(found, int) else None

    def check_model(self, model: Path) -> None:
        """Whether one of the run's policies is its own; its files are compared by `load_model`.

        Raises:
            BadFile: it is of another run, or `hgpo.json` is damaged.
        """
        if not self.exists():
            return
        described = self.description()
        for one in self.checkpoints():
            if one.model == model:
                one.check_owner(described.identity)
                start = one.seal().get("start")
                if start is not None and self.start.is_dir():
                    check_files(self.start, {SETTINGS: start})
        sealed_end = model == self.model and model_iteration(model) is not None
        if sealed_end and identity(model_settings(model) or {}) != described.identity:
            raise BadFile(
                f"{model} belongs to a run with other settings than those in {self.config_file}: one of the two was "
                "edited, or comes from another run. Restore it, or choose a checkpoint with --checkpoint."
            )

    def holds_models(self) -> bool:
        """Whether there is something to evaluate: a finished run may have been stripped of its checkpoints."""
        return self.checkpoint_parent.is_dir() or model_settings(self.model) is not None

    def saved_models(self) -> dict[int, Path]:
        """The policies of all checkpoints by iteration, whichever trainer wrote them."""
        models = {one.iteration: one.model for one in self.checkpoints()}
        for path in _children(self.checkpoint_parent):
            step = path.name.removeprefix("global_step_")
            if step != path.name and step.isdigit() and any(self.verl_model(int(step)).glob("*.safetensors")):
                models[int(step)] = self.verl_model(int(step))
        return dict(sorted(models.items()))

    def find_model(self, checkpoint: str) -> Path:
        """The policy of a run: `last`, `best`, or that of an iteration.

        Raises:
            BadFile: nothing was saved yet, or not the best.
            UnknownName: there is no such checkpoint.
        """
        saved = self.saved_models()
        if checkpoint == "last" and model_settings(self.model) is not None:
            # Of an end that the run has gone on after, it is not the last.
            exported = self.model_iteration(self.model)
            if not saved or (exported is not None and exported >= max(saved)):
                return self.model
        if not saved:
            raise BadFile(f"{self.path} has no checkpoint yet; let it train a little, then evaluate.")
        last = max(saved)
        if checkpoint == "last":
            return saved[last]
        if checkpoint == "best":
            best = self.best_iteration()
            if best not in saved:
                raise BadFile(
                    f"The best evaluation of {self.path} was that of iteration {best}, which was not saved "
                    f"(save_every). Choose one of {', '.join(map(str, saved))} with --checkpoint."
                    if best >= 0
                    else f"{self.path} was never evaluated, so no checkpoint is the best; use --checkpoint last."
                )
            return saved[best]
        if not checkpoint.isdigit() or int(checkpoint) not in saved:
            raise UnknownName("checkpoint", checkpoint, ["last", "best", *map(str, saved)])
        return saved[int(checkpoint)]

    def best_iteration(self) -> int:
        """The iteration with the best success on the first evaluated split, the earliest of equals; -1 without."""
        key = next((success_key(split) for split in self.description().panels), "")
        evaluated = [
            (-row[key], row["iteration"]) for row in self.complete_metrics() if row.get(key) is not None
        ]
        return min(evaluated)[1] if evaluated else -1

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
        return _read_json(self.results_file, "the outcome of a run") if self.results_file.is_file() else None

    def write_results(self, content: Mapping[str, Any]) -> None:
        """Write `results.json`."""
        _write_json(self.results_file, content)

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


@dataclass(frozen=True)
class EvaluationFolder:
    """Where `hgpo eval` writes: one log per seed and one result per split.

    Every file names its evaluation (model, tasks, temperature, seeds and settings in a few digits). The same evaluation
    made again replaces its own files; where a name is taken by another, the digits are added to it.
    """

    path: Path
    evaluation: str = ""
    """Which evaluation is written."""

    @classmethod
    def default(cls, name: str, evaluation: str = "") -> EvaluationFolder:
        """`logs/<name>`, or below `$CHECKPOINTS_DIR` when that is set."""
        return cls(Path(os.environ.get("CHECKPOINTS_DIR", ".")) / "logs" / safe_name(name), evaluation)

    def write_log(self, seed: int, lines: Sequence[str]) -> Path:
        """Write `output_seed{seed}.log`, every episode in words."""
        self.path.mkdir(parents=True, exist_ok=True)
        path = self._place(self.path / f"output_seed{seed}.log")
        write_text(path, "\n".join([f"evaluation {self.evaluation}", *lines]) + "\n")
        return path

    def write_result(self, split: str, content: Mapping[str, Any]) -> Path:
        """Write `result_{split}.json`."""
        self.path.mkdir(parents=True, exist_ok=True)
        path = self._place(self.result_file(split))
        _write_json(path, {**content, "evaluation": self.evaluation})
        return path

    def result_file(self, split: str) -> Path:
        """`result_{split}.json`, the name of the first result for a split."""
        return self.path / f"result_{safe_name(split)}.json"

    def _place(self, path: Path) -> Path:
        """The plain name, unless the file of another evaluation (or of somebody else) has it."""
        return path if self._ours(path) else path.with_name(f"{path.stem}_{self.evaluation}{path.suffix}")

    def _ours(self, path: Path) -> bool:
        if not os.path.lexists(path):
            return True
        try:
            if path.suffix == ".json":
                return bool(_read_json(path, "a result").get("evaluation") == self.evaluation)
            with open(path, encoding="utf-8", errors="replace") as lines:
                return lines.readline(200).rstrip("\n") == f"evaluation {self.evaluation}"
        except (OSError, BadFile):
            return False


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


def _read_json(path: Path, content_name: str) -> dict[str, Any]:
    """A JSON object; `content_name` says in errors what it should be."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read as {content_name}: {error}.") from error
    if not isinstance(content, dict):
        raise BadFile(f"{path} holds a JSON {type(content).__name__}; expected {content_name}, an object.")
    return content


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")
