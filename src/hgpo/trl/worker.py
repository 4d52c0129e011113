"""TRL's rollout worker on our stage: whole groups are played, estimated and handed over step by step.

TRL's trainer takes rows from a queue while a thread here plays. Rows carry the advantages already, so TRL's own group
comparison never happens, and it does not matter that rows of a group end up in different optimiser steps.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..config import estimator_settings
from ..config.schema import Config
from ..config.stage import open_stage
from ..errors import EngineFailed
from ..estimators.estimate import estimate
from ..install import install_command
from ..learn.selection import select
from ..play.policy import Policy
from ..runs.rollout import roll_out
from ..runs.stopping import Stop, StoppablePolicy, StopRequested
from ..seeds import generator
from ..steps.batch import StepBatch
from .hooks import misfit
from .samples import samples

T = TypeVar("T")
POLL = 0.05
"""Seconds between two looks at the queue."""
LONGEST_END = 30.0
"""Seconds that the replies under way have to end when the training is over."""


class _Alone:
    """The one process that plays."""

    size, rank = 1, 0

    def gather(self, value: T) -> list[T]:
        """What this process has."""
        return [value]


class RolloutWorker:
    """What `AsyncGRPOTrainer(rollout_worker=...)` takes.

    The tasks, seeds and settings are those of `hgpo train` with the same config: batch `n` is what iteration `n` plays.

    Args:
        config: environment, prompts, tasks, group size, estimator.
        policy: answers with token ids and log-probabilities.
        ahead: the next batch is played when no more than this many rows wait. 0 plays with weights that are as new
            as they can be; more lets the sampler and the trainer work at the same time, on older weights.
        first: number of the first batch, for a training that goes on.
        on_batch: gets every batch of steps, with advantages, `iteration` and `model_version`, before it is handed over.
    """

    def __init__(
        self,
        config: Config,
        policy: Policy,
        *,
        ahead: int = 0,
        first: int = 1,
        on_batch: Callable[[StepBatch], None] | None = None,
    ) -> None:
        self.config, self.ahead, self.iteration, self.on_batch = config, ahead, first - 1, on_batch
        self.rollout_buffer: queue.Queue[Any] = queue.Queue()
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue()
        self.version = 0
        self._stop = Stop()
        self._policy = StoppablePolicy(policy, self._stop)
        self._error: BaseException | None = None
        self._alive = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="hgpo-rollouts", daemon=True)

    # What TRL calls

    def start(self) -> None:
        """Begin to play.

        Raises:
            EngineFailed: this TRL is not the one that we know.
        """
        problem = misfit()
        if problem:
            raise EngineFailed(f"{problem}. Install the TRL that fits: {install_command('trl')}")
        self._thread.start()

    def stop(self) -> None:
        """Ask for nothing more, and wait for the replies under way."""
        self._stop.requested = True
        if self._thread.is_alive():
            self._thread.join(LONGEST_END)

    def update_model_version(self, model_version: int) -> None:
        """These weights play from now on."""
        self.version = model_version

    def check_health(self, stale_after_s: float) -> None:
        """TRL asks this while it waits for rows.

        Raises:
            EngineFailed: nothing more will come, or no episode has ended for so long.
        """
        if self._error is not None:
            raise EngineFailed(f"The rollouts have ended: {self._error}") from self._error
        silent = time.monotonic() - self._alive
        if silent > stale_after_s:
            raise EngineFailed(
                f"No episode has ended for {silent:.0f} seconds. Look at the model server, or raise "
                "heartbeat_stale_after_s where episodes take this long."
            )

    # The thread that plays

    def _run(self) -> None:
        try:
            self._play()
        except StopRequested:
            pass
        except BaseException as error:
            self._error = error

    def _play(self) -> None:
        config = self.config
        stage = open_stage(config)
        try:
            tasks = stage.tasks(config.env.split, config.env.tasks)
            while True:
                self._wait()
                self.iteration += 1
                # Of the weights at the start: those that an episode ends with may be newer, never older.
                version = self.version
                cursor = (self.iteration - 1) * config.rollout.tasks
                rollout = roll_out(
                    stage, self._policy, config, _Alone(), tasks, cursor, self.iteration, self._episode
                )
                self._hand_over(rollout.batch, version, rollout.metrics)
        finally:
            stage.close()

    def _episode(self, _: Any) -> None:
        self._alive = time.monotonic()

    def _wait(self) -> None:
        """Until the trainer has taken what was played."""
        while self.rollout_buffer.qsize() > self.ahead:
            self._stop.check()
            self._alive = time.monotonic()
            time.sleep(POLL)
        self._stop.check()

    def _hand_over(self, batch: StepBatch, version: int, played: dict[str, float]) -> None:
        config, number = self.config, self.iteration
        result = estimate(batch, config.estimator.name, **estimator_settings(config))
        batch = batch.with_columns(
            advantage=result.advantages,
            iteration=np.full(len(batch), number),
            model_version=np.full(len(batch), version),
        )
        if self.on_batch is not None:
            self.on_batch(batch)
        trained, _ = select(batch, config.update)
        names = list(dict.fromkeys(batch["task"].tolist()))
        groups = {name: number * config.rollout.tasks + place for place, name in enumerate(names)}
        # Rows of an episode are much alike; in order they would fill one optimiser step.
        order = generator("rows", config.seed, number).permutation(len(trained))
        self._alive = time.monotonic()
        self.metrics_queue.put(
            {
                **{f"hgpo/{key}": float(value) for key, value in played.items() if np.isfinite(value)},
                **{f"hgpo/estimator/{key}": float(v) for key, v in result.metrics.items() if np.isfinite(v)},
                "hgpo/iteration": float(number),
            }
        )
        for sample in samples(trained.take(order), version, groups):
            self.rollout_buffer.put(sample)
