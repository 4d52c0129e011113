"""Where evaluations are written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import BadFile
from ...files import read_json, safe_name, write_json, write_text


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

    def within(self, name: str) -> EvaluationFolder:
        """The folder in it of one of several evaluations."""
        return replace(self, path=self.path / safe_name(name))

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
        write_json(path, {**content, "evaluation": self.evaluation})
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
                return bool(read_json(path, "a result").get("evaluation") == self.evaluation)
            with open(path, encoding="utf-8", errors="replace") as lines:
                return lines.readline(200).rstrip("\n") == f"evaluation {self.evaluation}"
        except (OSError, BadFile):
            return False
