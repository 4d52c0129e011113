"""Any environment in a process of its own, watched over.

    env = SupervisedEnv("my_package:MyEnv", {"data": "games"}, step_timeout=10)

A foreign engine may hang, crash or raise. Each time, the worker process is replaced, the same task is reset,
the actions so far are repeated (and must lead to the same texts), and the call is made again. Only when
that fails too often is the episode given up, with `EnvironmentFailed`. Every incident is counted. Messages
are JSON lines; nothing is unpickled. An answer that is not what the contract says is an incident like any other, and
what the environment itself started ends with its worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from .. import errors
from ..errors import BadSetting, EnvironmentFailed, HgpoError, ResetNeeded
from . import answers
from .contract import Observation, Transition

LARGEST_ANSWER = 1 << 28
"""Bytes of one answer; more would fill this process's memory."""
# The working directory stays out of the worker's path unless it is in ours: a module of that name could lie there.
_START = "import sys; sys.path[:] = [p for p in sys.path if p]; from hgpo.envs.worker import main; main()"


@dataclass(frozen=True)
class Incidents:
    """What went wrong so far, and what was done about it."""

    timeouts: int = 0
    """Calls that took longer than allowed; the worker was killed."""
    deaths: int = 0
    """Workers that ended by themselves."""
    raised: int = 0
    """Calls in which the environment raised an exception."""
    restarts: int = 0
    """Workers started to replace another."""
    replays: int = 0
    """Episodes brought back to where they were."""
    failures: int = 0
    """Calls given up after all attempts."""


class _Broken(Exception):
    """The worker cannot go on; `kind` names the counter in `Incidents`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class SupervisedEnv:
    """A `TextEnv` whose work is done in a supervised worker process.

    Args:
        factory: a name that `make` knows, or `module:attribute` that the worker can import.
        settings: keyword arguments of the factory; JSON-like.
        step_timeout: seconds for one step.
        reset_timeout: seconds for starting the worker, for a reset and for listing tasks.
        attempts: how often a call is tried in all.
        recycle_after: replace the worker after this many episodes (0: never), for engines that leak memory.
        python: interpreter of the worker, for engines that live in an environment of their own.
    """

    def __init__(
        self,
        factory: str,
        settings: Mapping[str, Any] | None = None,
        *,
        step_timeout: float = 60.0,
        reset_timeout: float = 180.0,
        attempts: int = 3,
        recycle_after: int = 0,
        python: str | None = None,
    ) -> None:
        if step_timeout <= 0 or reset_timeout <= 0 or attempts < 1:
            raise BadSetting(
                f"step_timeout {step_timeout}, reset_timeout {reset_timeout}, attempts {attempts}: expected "
                "timeouts above 0 and at least 1 attempt."
            )
        try:
            self._start_line = json.dumps({"factory": factory, "settings": dict(settings or {})})
        except (TypeError, ValueError) as error:
            raise BadSetting(
                f"Settings for a worker process must be JSON-like ({error}). Give paths and names as strings."
            ) from error
        self.factory = factory
        self.step_timeout, self.reset_timeout = step_timeout, reset_timeout
        self.attempts, self.recycle_after = attempts, recycle_after
        self.python = python or sys.executable
        self.incidents = Incidents()
        self._worker: _Worker | None = None
        self._episodes = 0
        self._begun: tuple[str, int | None, str] | None = None
        self._trail: list[tuple[str, str]] = []
        self._splits: tuple[str, ...] | None = None
        self._tasks: dict[str, tuple[str, ...]] = {}
        self._version: int | None = None
        self._form: str | None = None

    @property
    def splits(self) -> Sequence[str]:
        """As the environment says."""
        if self._splits is None:
            request = {"call": "splits"}
            self._splits = tuple(self._try(request, self.reset_timeout, answers.split_names))
        return self._splits

    def tasks(self, split: str) -> Sequence[str]:
        """As the environment says."""
        if split not in self._tasks:
            request = {"call": "tasks", "split": split}
            self._tasks[split] = tuple(
                self._try(request, self.reset_timeout, lambda value: answers.task_ids(value, split))
            )
        return list(self._tasks[split])

    @property
    def world_version(self) -> int:
        """As the environment says; 1 where it does not."""
        if self._version is None:
            self._version = int(self._try({"call": "world_version"}, self.reset_timeout, answers.version))
        return self._version

    @property
    def action_form(self) -> str:
        """As the environment says; `verbatim` where it does not."""
        if self._form is None:
            self._form = str(self._try({"call": "action_form"}, self.reset_timeout, str))
        return self._form

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start the episode of `task`."""
        self._begun, self._trail = None, []
        if self.recycle_after and self._episodes >= self.recycle_after:
            self._stop()
        request = {"call": "reset", "task": task, "seed": seed}
        seen: Observation = self._try(request, self.reset_timeout, _observation)
        self._episodes += 1
        self._begun = (task, seed, seen.text)
        return seen

    def step(self, action: str) -> Transition:
        """Do one action, replacing the worker and repeating the episode so far where needed."""
        if self._begun is None:
            raise ResetNeeded(f"SupervisedEnv({self.factory})")
        request = {"call": "step", "action": action}
        seen: Transition = self._try(request, self.step_timeout, _transition, replay=True)
        self._trail.append((action, seen.text))
        return seen

    def close(self) -> None:
        """End the worker."""
        self._stop()
        self._begun = None

    def __del__(self) -> None:
        # At the end of the interpreter, modules may be gone already; the worker ends with its standard input.
        if contextlib is not None:
            with contextlib.suppress(Exception):
                self._stop()

    def _count(self, kind: str) -> None:
        self.incidents = replace(self.incidents, **{kind: getattr(self.incidents, kind) + 1})

    def _try(
        self, request: Mapping[str, Any], timeout: float, read: Callable[[Any], Any], *, replay: bool = False
    ) -> Any:
        """Make a call and `read` its value; on every incident replace the worker and try again.

        A step is tried with the episode so far repeated (`replay`). No error of a step is the user's.
        """
        broken = None
        for _ in range(self.attempts):
            try:
                fresh = self._worker is None
                if self._worker is None:
                    self._worker = self._start(again=broken is not None)
                if fresh and replay:
                    self._replay(self._worker)
                return _checked(read, self._worker.call(request, timeout, user=not replay))
            except _Broken as error:
                broken = error
                self._count(error.kind)
                self._stop()
        self._count("failures")
        if replay:
            self._begun = None
        slow = " Raise step_timeout and reset_timeout if it is only slow." if self._late(broken) else ""
        times = f"{self.attempts} times; last" if self.attempts > 1 else "once"
        raise EnvironmentFailed(f"{self.factory}: {request['call']} failed {times}: {broken}.{slow}")

    @staticmethod
    def _late(broken: _Broken | None) -> bool:
        return broken is not None and broken.kind == "timeouts"

    def _start(self, *, again: bool) -> _Worker:
        if again:
            self._count("restarts")
        self._episodes = 0
        worker = _Worker(self.python)
        try:
            worker.call_line(self._start_line, self.reset_timeout)
        except BaseException:
            worker.stop()
            raise
        return worker

    def _replay(self, worker: _Worker) -> None:
        """Bring a new worker to where the episode was, and make sure that it is the same episode."""
        if self._begun is None:
            return
        self._count("replays")
        task, seed, text = self._begun
        request: dict[str, Any] = {"call": "reset", "task": task, "seed": seed}
        begun: Observation = _checked(_observation, worker.call(request, self.reset_timeout, user=False))
        expected = [text, *(text for _, text in self._trail)]
        seen = [begun.text]
        for action, _ in self._trail:
            request = {"call": "step", "action": action}
            after: Transition = _checked(_transition, worker.call(request, self.step_timeout, user=False))
            seen.append(after.text)
        if seen != expected:
            self._begun = None
            self._count("failures")
            self._stop()
            raise EnvironmentFailed(
                f"{self.factory}: task {task!r} went differently when its actions were repeated in a new process. "
                "A task id (and seed) must decide the whole episode; run hgpo.envs.check_env on it."
            )

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()


class _Worker:
    """The process and its two pipes."""

    def __init__(self, python: str) -> None:
        # The worker must find this package and whatever the caller can import.
        paths = [str(Path(__file__).resolve().parents[2])]
        if python == sys.executable:
            paths += [path or os.getcwd() for path in sys.path]
        elif os.environ.get("PYTHONPATH"):
            paths.append(os.environ["PYTHONPATH"])
        try:
            self.process = subprocess.Popen(
                [python, "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise BadSetting(f"Cannot start a worker with {python}: {error.strerror}.") from error
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.calls: IO[bytes] = self.process.stdin
        self.answers: IO[bytes] = self.process.stdout
        os.set_blocking(self.calls.fileno(), False)
        self.buffer = b""

    def call(self, request: Mapping[str, Any], timeout: float, *, user: bool) -> Any:
        """Send one request and return its value; with `user`, errors of this package are the user's."""
        return self.call_line(json.dumps(request), timeout, user=user)

    def call_line(self, line: str, timeout: float, *, user: bool = True) -> Any:
        deadline = time.monotonic() + timeout
        self._send(line.encode() + b"\n", deadline, timeout)
        try:
            message = json.loads(self._receive(deadline, timeout))
            if "error" not in message:
                return message["value"]
            kind, text = str(message["error"]), str(message["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise _Broken("deaths", f"its answer could not be read ({error})") from error
        if not message.get("user"):
            raise _Broken("raised", text)
        if user and kind != EnvironmentFailed.__name__:
            raise _user_error(kind, text)
        raise _Broken("raised", f"{kind}: {text}")

    def _send(self, data: bytes, deadline: float, timeout: float) -> None:
        while data:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self.calls], [], left)[1]:
                raise _Broken("timeouts", f"it took no input for {timeout:g} s")
            try:
                data = data[os.write(self.calls.fileno(), data[:65536]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._died() from error

    def _receive(self, deadline: float, timeout: float) -> bytes:
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise _Broken("timeouts", f"it gave no answer within {timeout:g} s")
            data = os.read(self.answers.fileno(), 1 << 20)
            if not data:
                raise self._died()
            self.buffer += data
            if len(self.buffer) > LARGEST_ANSWER:
                raise _Broken("deaths", f"its answer is larger than {LARGEST_ANSWER >> 20} MB")
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def _died(self) -> _Broken:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        return _Broken("deaths", f"its process ended with status {self.process.poll()}")

    def stop(self) -> None:
        """End the process: politely first where it may listen, then for good."""
        with contextlib.suppress(OSError):
            self.calls.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        # Whatever the environment started is in the group, also when the worker itself has ended.
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.answers.close()


def _checked(read: Callable[[Any], Any], value: Any) -> Any:
    """What a worker answered, if it is what the contract says."""
    try:
        return read(value)
    except (answers.WrongAnswer, TypeError) as error:
        raise _Broken("raised", answers.cause(error)) from error


def _observation(value: Any) -> Observation:
    return answers.observation(Observation(**value))


def _transition(value: Any) -> Transition:
    return answers.transition(Transition(**value))


def _user_error(kind: str, text: str) -> HgpoError:
    """The worker's error as the same class here, with its message."""
    named = getattr(errors, kind, HgpoError)
    cls = named if isinstance(named, type) and issubclass(named, HgpoError) else HgpoError
    error: HgpoError = cls.__new__(cls)
    Exception.__init__(error, text)
    return error
