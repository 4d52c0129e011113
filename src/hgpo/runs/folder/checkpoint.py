"""A checkpoint of `hgpo train`: weights, optimiser, policy, and where the run stood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...digests import check_files, unsealed
from ...errors import BadFile
from ...files import read_json
from ...models.folder import SETTINGS, check_model
from ...models.tensors import TensorFile

OTHER_CHECKPOINT = "Restore it from a copy, or delete the checkpoint's folder to go on from the one before"


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
        seal = self._content().get("seal", {})
        return seal if isinstance(seal, dict) else {}

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
            return unsealed(read_json(path, "the state of a run"), path)
        except BadFile as error:
            raise self._damaged(error) from error

    def tensors(self) -> TensorFile:
        """Weights and optimiser moments, each read when it is asked for."""
        from safetensors import SafetensorError

        try:
            return TensorFile(self.weights)
        except (OSError, ValueError, SafetensorError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> BadFile:
        return BadFile(
            f"The checkpoint {self.path} is damaged: {str(error).rstrip('.')}. Delete its folder to go on from the one "
            "before."
        )
