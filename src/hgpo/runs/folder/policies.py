"""The policies that a run saved: which of them is meant, after which iteration it was written, whether it is the run's.

A run saves a policy with every checkpoint and one at its end (`model/`). Where they lie is `RunFolder`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...digests import check_files
from ...errors import BadFile, UnknownName
from ...models.folder import SETTINGS, model_iteration, model_settings
from .description import identity
from .run import RunFolder


@dataclass(frozen=True)
class RunPolicies:
    """The policies in a run's folder. Making one touches nothing on disk."""

    run: RunFolder

    def exist(self) -> bool:
        """Whether there is something to evaluate: a finished run may have been stripped of its checkpoints."""
        return self.run.checkpoint_parent.is_dir() or model_settings(self.run.model) is not None

    def saved(self) -> dict[int, Path]:
        """The policies of all checkpoints by iteration, whichever trainer wrote them."""
        models = {one.iteration: one.model for one in self.run.checkpoints()}
        return dict(sorted({**models, **self.run.verl_models()}.items()))

    def find(self, checkpoint: str) -> Path:
        """The policy of `last`, `best`, or an iteration.

        Raises:
            BadFile: nothing was saved yet, or not the best.
            UnknownName: there is no such checkpoint.
        """
        saved = self.saved()
        if checkpoint == "last" and model_settings(self.run.model) is not None:
            # Of an end that the run has gone on after, it is not the last.
            exported = self.iteration(self.run.model)
            if not saved or (exported is not None and exported >= max(saved)):
                return self.run.model
        if not saved:
            raise BadFile(f"{self.run.path} has no checkpoint yet; let it train a little, then evaluate.")
        last = max(saved)
        if checkpoint == "last":
            return saved[last]
        if checkpoint == "best":
            best = self.best_iteration()
            if best not in saved:
                raise BadFile(
                    f"The best evaluation of {self.run.path} was that of iteration {best}, which was not saved "
                    f"(save_every). Choose one of {', '.join(map(str, saved))} with --checkpoint."
                    if best >= 0
                    else f"{self.run.path} was never evaluated, so no checkpoint is the best; use --checkpoint last."
                )
            return saved[best]
        if not checkpoint.isdigit() or int(checkpoint) not in saved:
            raise UnknownName("checkpoint", checkpoint, ["last", "best", *map(str, saved)])
        return saved[int(checkpoint)]

    def best_iteration(self) -> int:
        """The iteration with the best success on the first evaluated split, the earliest of equals; -1 without."""
        first = next(iter(self.run.description().panels), None)
        evaluated = {} if first is None else self.run.successes(first)
        return min(evaluated, key=lambda iteration: (-evaluated[iteration], iteration), default=-1)

    def iteration(self, model: Path) -> int | None:
        """After how many iterations a policy was written; None where that is not known."""
        for iteration, path in self.saved().items():
            if path == model:
                return iteration
        written = model_iteration(model)
        if written is None and model == self.run.model:
            # Earlier versions wrote it into the outcome alone.
            written = (self.run.results() or {}).get("iterations")
        return written if isinstance(written, int) else None

    def check(self, model: Path) -> None:
        """Whether a policy is the run's own; its files are compared by `load_model`.

        Raises:
            BadFile: it is of another run, or `hgpo.json` is damaged.
        """
        if not self.run.exists():
            return
        described = self.run.description()
        for one in self.run.checkpoints():
            if one.model == model:
                one.check_owner(described.identity)
                start = one.seal().get("start")
                if start is not None and self.run.start.is_dir():
                    check_files(self.run.start, {SETTINGS: start})
        sealed_end = model == self.run.model and model_iteration(model) is not None
        if sealed_end and identity(model_settings(model) or {}) != described.identity:
            raise BadFile(
                f"{model} belongs to a run with other settings than those in {self.run.config_file}: one of the two "
                "was edited, or comes from another run. Restore it, or choose a checkpoint with --checkpoint."
            )
