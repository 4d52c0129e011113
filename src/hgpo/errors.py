"""Every error a user can cause, one class per cause.

All derive from `HgpoError`. A message is one sentence or two that say what was given, what was expected
and what to do about it. The command line prints the message alone; a library caller can catch the class.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from .install import install_command


class HgpoError(Exception):
    """Base of all errors that a user's input, files or machine can cause."""


class BadSteps(HgpoError):
    """Recorded steps that cannot be used: missing columns, repeated steps, values that are not finite."""


class BadSetting(HgpoError):
    """A setting with a value outside what it allows."""


class BadFile(HgpoError):
    """A file that is missing, damaged, truncated or in an unknown format."""


class DiskFull(BadFile):
    """No room left on the disk (or in a quota) for a file."""

    def __init__(self, path: object, kept: str = "") -> None:
        super().__init__(
            f"Cannot write {path}: there is no space left for it. Free some space and run the command again."
            + (f" {kept}" if kept else "")
        )
        self.path = path


class NotWritten(BadFile):
    """A result that was made but could not be written; it is carried along, so that it is not lost."""

    def __init__(self, reason: str, result: dict[str, Any]) -> None:
        super().__init__(reason)
        self.result = result


class FolderBusy(HgpoError):
    """A folder that another process is training into."""


class UnknownName(HgpoError):
    """A name (estimator, setting, environment, task, split) that does not exist; suggests the nearest."""

    def __init__(self, kind: str, given: object, known: Iterable[str], fix: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(str(given), names, n=1, cutoff=0.5)
        shown = names if len(names) <= 30 else [*names[:30], f"... ({len(names)} in all)"]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(
            f"Unknown {kind} {given!r}.{hint} Known: {', '.join(shown) or 'none'}.{' ' + fix if fix else ''}"
        )
        self.nearest = near[0] if near else None


class UntrustedCode(HgpoError):
    """A run's or model's folder that names code to run, which nobody here has asked for."""


class DamagedStore(BadFile):
    """A store of a catalogue that is truncated, half-written, corrupt or out of date; it is built again."""


class BadQuery(HgpoError):
    """A search that cannot be run, such as one with too many terms."""


class MissingExtra(HgpoError):
    """An optional package that is needed for what was asked, with the command that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed. "
            f"Install it with: {install_command(extra)}"
        )


class EnvironmentFailed(HgpoError):
    """An environment broke in the middle of an episode (died, hung, raised); the episode cannot be used."""


class ResetNeeded(HgpoError):
    """A step before the first reset, or after the environment was closed."""

    def __init__(self, env: str) -> None:
        super().__init__(f"{env}: step() was called with no episode under way. Call reset(task) first.")


class UnknownTask(HgpoError):
    """A task id that the environment does not have; says where it was looked for."""

    def __init__(self, task: object, source: str, splits: Iterable[str], nearest: str | None = None) -> None:
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        listed = " or ".join(f"env.tasks({split!r})" for split in splits)
        super().__init__(f"Unknown task {task!r} in {source}.{hint} List the task ids with {listed}.")
        self.nearest = nearest


class BadEnv(HgpoError):
    """An environment that breaks the contract; lists every problem found."""

    def __init__(self, env: str, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        count = f"{len(self.problems)} way{'s' if len(self.problems) > 1 else ''}"
        self.lines = [
            f"{env} breaks the environment contract in {count}:",
            *(f"{number}. {problem}" for number, problem in enumerate(self.problems, 1)),
        ]
        super().__init__("\n".join(self.lines))


class PanelMismatch(HgpoError):
    """Results of different task panels that were asked to be compared."""


class NotFinite(HgpoError):
    """A loss or gradient that is NaN or infinite; training stopped before it could do harm."""


class EndpointFailed(HgpoError):
    """A model server that did not answer, or answered with an error, after all attempts."""


class OutOfMemory(HgpoError):
    """The device has too little memory for the settings."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The GPU ran out of memory: {reason} Lower rollout.batch_tokens (play and evaluation) or "
            "update.micro_tokens (training; half is a good start), set model.gradient_checkpointing=true, train "
            "adapters with model.lora_rank=16, or choose a smaller model. A run continues from its last checkpoint "
            "with --resume."
        )


class EngineFailed(HgpoError):
    """A foreign training engine that cannot start, or ended with an error; says where its log is."""


class NumbersDiffer(HgpoError):
    """Numbers that must be equal (what an engine trained on, what the estimator gives) and are not."""
