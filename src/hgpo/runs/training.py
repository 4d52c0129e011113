"""The training run: play, estimate, update; evaluate and save as it goes.

from hgpo.runs import load, train
train(load("quickstart"), "runs/quickstart")
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..config import as_dict, estimator_settings
from ..config.schema import Config, experiment_name
from ..config.stage import open_stage
from ..config.stored import allow_flag
from ..errors import DiskFull, NotFinite
from ..estimators.estimate import arrange, compute
from ..estimators.penalty import penalty_share
from ..files import is_full, plain
from ..learn.distributed import Processes
from ..learn.learner import Learner, check_correction
from ..learn.objective import find_loss
from ..learn.selection import select
from ..models.device import check_dtype, device_memory, pick_device
from ..models.folder import left_out
from ..models.hub import check_hub
from ..models.load import load_model, save_model
from ..models.memory import check_memory, estimate
from ..models.out_of_memory import out_of_memory_explained
from ..models.shape import Shape, find_shape
from ..models.source import check_source
from ..policies.engine import Counters, Source, check_engine, check_opening, open_engine
from ..steps.batch import StepBatch
from .alarms import PENALTY_SHARE, Alarms
from .folder import Description, RunFolder, TrainState
from .measures import Phases, iteration_measures
from .panels import Panel
from .play import make_panels
from .player import Player
from .replies import unfit_replies
from .reporting import finish
from .rollout import Rollout, roll_out
from .start import makes_start, prepare
from .stopping import Stop, StopRequested
from .tracking import Screen, Trackers, check_trackers


def train(
    config: Config | None,
    run: str | os.PathLike[str],
    *,
    resume: bool = False,
    max_minutes: float | None = None,
    quiet: bool = False,
    stream: Any = None,
    allow_env: str | Sequence[str] = (),
) -> dict[str, Any]:
    """Train as `config` says into the folder `run`; returns what `results.json` holds.

    Args:
        config: the settings; None with `resume` takes those of the run.
        run: the run's folder, made if needed.
        resume: continue the run in that folder from its last checkpoint (or start it).
        max_minutes: stop before an iteration that would end after so many minutes; the run can be resumed.
        quiet: print nothing.
        stream: where progress goes (standard error by default).
        allow_env: addresses of environments (`module:Class`) that the run may name where `config` is None.
    """
    folder = RunFolder(Path(run))
    # Of several processes under torchrun the first writes the files, and holds the folder for all.
    first = int(os.environ.get("RANK", "0")) == 0
    with folder.training() if first else contextlib.nullcontext():
        return _train(config, folder, resume, max_minutes, quiet, stream, allow_env)


def _train(
    config: Config | None,
    folder: RunFolder,
    resume: bool,
    max_minutes: float | None,
    quiet: bool,
    stream: Any,
    allow_env: str | Sequence[str],
) -> dict[str, Any]:
    if resume and folder.exists():
        folder.require_own()
    else:
        folder.require_new()
    if config is None:
        config = folder.config(allow_env=allow_env)
    begins = not folder.start.is_dir() or left_out(folder.start)
    if begins:  # a run that has made its start needs no other model
        check_source(config.model.path)
        if config.model.path != "tiny":
            check_hub(config.model.path)
    many = int(os.environ.get("WORLD_SIZE", "1"))
    check_engine(config.rollout.engine, training=True, processes=many)
    check_trackers(config.track)
    find_loss(config.update.loss)
    check_correction(config.update)
    if config.threads:
        torch.set_num_threads(config.threads)
    processes = Processes(pick_device(config.device))
    needed = find_shape(config.model.path) if begins else None
    if needed is not None and processes.device.type == "cuda":
        check_memory(estimate(needed, config, processes.size), device_memory(processes.device))
    try:
        with out_of_memory_explained():
            screen = Screen(config.iterations, stream, quiet=quiet or not processes.first)
            return _Run(config, folder, processes, Stop(max_minutes), screen).go()
    except Exception as error:
        if isinstance(error, DiskFull) or is_full(error):
            raise _full(folder, error) from error
        raise
    finally:
        processes.close()


def _full(folder: RunFolder, error: Exception) -> DiskFull:
    """No space left in the middle of a run: what there is of it, and how it goes on."""
    place = getattr(error, "path", None) or getattr(error, "filename", None) or folder.path
    saved = folder.checkpoints()
    if not saved and not folder.start.is_dir():
        return DiskFull(place)
    made = (
        f"the checkpoint of iteration {saved[-1].iteration}"
        if saved
        else "the policy that the run starts from"
    )
    return DiskFull(place, f"In {folder.path} {made} is kept; go on with: hgpo train --resume {folder.path}")


class _Run:
    """One run from start (or checkpoint) to end."""

    def __init__(
        self, config: Config, folder: RunFolder, processes: Processes, stop: Stop, screen: Screen
    ) -> None:
        self.config, self.folder, self.processes, self.stop, self.screen = (
            config,
            folder,
            processes,
            stop,
            screen,
        )
        self.stage = open_stage(config)
        check_opening(config.rollout.engine, Source(config, self.stage, config.model.path))
        self.estimator = estimator_settings(config)
        self.name = experiment_name(config)
        self.tasks = self.stage.tasks(config.env.split, config.env.tasks)
        self.panels: dict[str, Panel] = make_panels(self.stage, config.eval)
        self.before = 0.0
        self.read_replies = False
        self.alarms = Alarms()
        self.began = time.monotonic()
        self.played: tuple[StepBatch, int] | None = None
        self.stored: Mapping[str, Any] = as_dict(config)
        """The settings as config.json has them: without those that the package did not know when the run began."""

    def go(self) -> dict[str, Any]:
        """The whole run."""
        config = self.config
        described: Description | None = None
        if self.processes.first:
            self.folder.resume_point()
            described = self.folder.continued(Description.of(config, self.panels, self.tasks))
            self.stored = described.config
            if not self.folder.exists():
                self.folder.describe(described)
        self.processes.barrier()
        # Before the minutes of a warm start: without a login there is no W&B.
        track = config.track if self.processes.first else replace(config.track, tensorboard=False, wandb="")
        with contextlib.closing(Trackers(track, self.folder, self.name, as_dict(config))) as trackers:
            state = self._set_up()
            if described is not None:
                # Of a run that goes on nothing is changed before all of it was read and found whole.
                self.folder.describe(described)
            # Until here an interrupt ends the run at once, for there is nothing to save; from here on it is remembered.
            with self.stop:
                return self._train(state, trackers)

    def _train(self, state: TrainState, trackers: Trackers) -> dict[str, Any]:
        """From the first iteration to the outcome."""
        config = self.config
        try:
            state, why = self._loop(state, trackers)
        finally:
            self.player.engine.close()
            self.stage.close()
        result = {
            "name": self.name,
            "ended": why,
            "iterations": state.iteration,
            "seconds": state.seconds,
            "best_iteration": state.best_iteration,
        }
        if not self.processes.first:
            save_model(self.learner.actor, self.tokenizer, None)
        else:
            self._keep_last()
            self.folder.export(
                lambda partial: save_model(self.learner.actor, self.tokenizer, partial),
                self.stored,
                state.iteration,
            )
            resume = f"hgpo train --resume {self.folder.path}{allow_flag(config)}"
            result = finish(self.folder, result, self.panels, self.screen, resume, allow_flag(config))
        # Leave together: a process that tears its connections down early can bring the others down.
        self.processes.barrier()
        return result

    def _set_up(self) -> TrainState:
        """Model, learner and, from the last checkpoint, where they stood."""
        config = self.config
        source = config.model.path
        if makes_start(config):
            start = self.folder.start
            if self.processes.first:
                prepare(config, self.stage, start, self.processes.device, self.screen)
            self.processes.barrier()
            source = str(start)
        model, self.tokenizer = self._load(source)
        self.learner = Learner(model, config, self.processes, self.tokenizer.eos_token_id)
        state = TrainState(0, 0, 0)
        saved = self.folder.checkpoints()
        if saved:
            state = saved[-1].state()
            self.learner.restore(saved[-1].tensors(), state.updates)
            self.screen.say(f"resuming after iteration {state.iteration}")
        if self.processes.first:
            self.folder.rewind_metrics(state.iteration if saved else -1)
            self.alarms = Alarms.after(self.folder.metrics())
        self.before = state.seconds
        played = Source(config, self.stage, source, self.learner.actor, self.tokenizer)
        engine = open_engine(config.rollout.engine, played)
        self.player = Player(engine, self.stage, self.processes, self.stop)
        count = sum(parameter.numel() for parameter in self.learner.actor.parameters())
        self.screen.say(
            f"{self.name}: {count / 1e6:.2f}M parameters on {self.processes.device}, {len(self.tasks)} training tasks, "
            f"{config.rollout.tasks} x {config.rollout.group_size} rollouts an iteration"
        )
        shape = Shape.of(self.learner.actor.config.to_dict())
        if shape is not None and self.processes.device.type == "cuda":
            needed = estimate(shape, config, self.processes.size)
            held = device_memory(self.processes.device) / 2**30
            self.screen.say(f"memory: {needed} of {held:.0f} GiB")
            if self.processes.size > 1:
                often = "optimiser step" if self.learner.once else "pass, for there is no room for whole ones"
                self.screen.say(f"gradients are exchanged once per {often}")
        return state

    def _load(self, source: str) -> tuple[Any, Any]:
        """Model and tokenizer; of several processes the first alone reads the model, into its host's memory."""
        if self.processes.size == 1:
            return load_model(source, self.config.model, self.processes.device)
        check_dtype(self.config.model.dtype, self.processes.device)
        model, tokenizer = None, None
        if self.processes.first:
            model, tokenizer = load_model(source, self.config.model, torch.device("cpu"))
        return model, self.processes.tell(tokenizer)

    def _loop(self, state: TrainState, trackers: Trackers) -> tuple[TrainState, str]:
        config, pace = self.config, 0.0
        if state.iteration == 0 and not self.folder.checkpoints():
            try:
                row, state = self._first(state)
            except StopRequested:
                return state, "interrupted"
            self._record(row, trackers)
            self._save(state)
        while state.iteration < config.iterations:
            if self.processes.any(self.stop.requested):
                self._save_if_new(state)
                return state, "interrupted"
            if self.processes.any(self.stop.out_of_time(pace)):
                self._save_if_new(state)
                return state, "out of time"
            start = time.monotonic()
            try:
                row, state = self._iteration(state)
            except StopRequested:
                self._save_if_new(state)
                return state, "interrupted"
            pace = max(pace, time.monotonic() - start)
            self._record(row, trackers)
            if state.iteration % config.save_every == 0 or state.iteration == config.iterations:
                self._save(state)
        return state, "finished"

    def _first(self, state: TrainState) -> tuple[dict[str, Any], TrainState]:
        """The starting policy, evaluated: iteration 0."""
        start = time.monotonic()
        row: dict[str, Any] = {"iteration": 0}
        evaluated, state = self._evaluate(state, 0)
        if evaluated:
            first = self.config.eval.splits[0]
            row |= {
                "success": evaluated[f"eval/{first}/success"],
                "return": evaluated[f"eval/{first}/return"],
            }
        row["seconds"] = time.monotonic() - start
        return {**row, **evaluated}, state

    def _iteration(self, state: TrainState) -> tuple[dict[str, Any], TrainState]:
        """Play, estimate, select, update, perhaps evaluate."""
        config, number = self.config, state.iteration + 1
        phases = Phases()
        rollout, sampled = self._play(state.cursor, number)
        phases.end("rollout")
        if not self.read_replies:
            self.read_replies = True
            said = unfit_replies(rollout.batch, self.stage.style, config)
            if said:
                self.screen.say(f"iteration {number}: {said}")
        computed = compute(rollout.batch, config.estimator.name, self.estimator)
        result = arrange(rollout.batch, computed)
        batch = rollout.batch.with_columns(
            advantage=result.advantages, iteration=np.full(len(rollout.batch), number)
        )
        trained, filtered_groups = select(batch, config.update)
        phases.end("estimate")
        losses = self._update(batch, trained, number)
        phases.end("update")
        self.played = (batch, number)
        if self.processes.first and config.rollout.keep_every and number % config.rollout.keep_every == 0:
            self.folder.write_rollouts(batch, number)
        state = replace(
            state, iteration=number, cursor=state.cursor + config.rollout.tasks, updates=self.learner.updates
        )
        evaluated: dict[str, float] = {}
        if config.eval.every and (number % config.eval.every == 0 or number == config.iterations):
            evaluated, state = self._evaluate(state, number)
        phases.end("eval")
        state = replace(state, seconds=self.before + time.monotonic() - self.began)
        row = {
            "iteration": number,
            **rollout.metrics,
            **iteration_measures(rollout.metrics, sampled, trained, losses, phases),
            "filtered_groups": float(filtered_groups),
            **losses,
            **{f"estimator/{key}": value for key, value in result.metrics.items()},
            PENALTY_SHARE: penalty_share(computed),
            **evaluated,
        }
        return plain(row), state

    def _keep_last(self) -> None:
        """Write the rollouts of the last iteration, whatever its number, so that a short run can be looked at too."""
        every = self.config.rollout.keep_every
        if self.played is not None and every and self.played[1] % every:
            self.folder.write_rollouts(*self.played)

    def _play(self, cursor: int, number: int) -> tuple[Rollout, Counters]:
        """The rollouts of iteration `number`, from task `cursor` on, and what generating them took."""
        config, engine = self.config, self.player.engine
        policy, before = self.player.policy(config.rollout.temperature), engine.counters
        total = config.rollout.tasks * config.rollout.group_size // self.processes.size
        counter = itertools.count(1)

        def played(_: Any) -> None:
            self.screen.now(f"iteration {number}: played {next(counter)}/{total} episodes")

        rollout = roll_out(self.stage, policy, config, self.processes, self.tasks, cursor, number, played)
        return rollout, engine.counters - before

    def _update(self, batch: StepBatch, trained: StepBatch, number: int) -> dict[str, float]:
        """Update the policy on the steps `trained`; returns the update's metrics, none when there are no steps.

        Raises:
            NotFinite: naming the file to which the whole `batch` was written.
        """
        self.screen.now(f"iteration {number}: updating on {len(trained)} steps")
        if not len(trained):
            return {}
        engine = self.player.engine
        engine.pause()
        try:
            progress = (number - 1) / self.config.iterations
            losses = self.learner.update(trained, self.config.seed * 1_000_003 + number, progress)
        except NotFinite as error:
            if not self.processes.first:
                raise
            path = self.folder.write_not_finite(batch)
            raise NotFinite(f"{error} The batch is in {path}.") from None
        engine.load(self.learner.actor)
        return losses

    def _evaluate(self, state: TrainState, iteration: int) -> tuple[dict[str, float], TrainState]:
        """Success on every panel; the first split decides which iteration is best."""
        values = self.player.evaluate(self.panels, self.config.eval, self.screen)
        if values:
            success = values[f"eval/{self.config.eval.splits[0]}/success"]
            if success > state.best_success:
                state = replace(state, best_iteration=iteration, best_success=success)
        return values, state

    def _save(self, state: TrainState) -> None:
        """Write a checkpoint: the first process does, tensor by tensor, and all put each of them together."""
        tensors = self.learner.state()
        if self.processes.first:
            self.folder.save_checkpoint(
                state,
                tensors,
                lambda partial: save_model(self.learner.actor, self.tokenizer, partial, merge=False),
                self.stored,
                self.config.keep,
            )
        else:
            for name in tensors:
                tensors[name]
            save_model(self.learner.actor, self.tokenizer, None, merge=False)
        self.processes.barrier()

    def _save_if_new(self, state: TrainState) -> None:
        saved = self.folder.checkpoints()
        if not saved or saved[-1].iteration != state.iteration:
            self._save(state)

    def _record(self, row: dict[str, Any], trackers: Trackers) -> None:
        if self.processes.first:
            self.folder.append_metrics(row)
            trackers.log(row)
        if "success" in row:
            self.screen.iteration(row)
        for alarm in self.alarms.check(row):
            self.screen.say(alarm)
