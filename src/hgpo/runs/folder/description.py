"""`config.json`: what a run is, and whether one that goes on is still the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...config import as_dict, build, estimator_settings
from ...config.schema import Config, experiment_name
from ...config.stored import same_env
from ...digests import content_digest
from ...errors import BadFile, BadSetting
from ..panels import Panel, PanelSummary, tasks_digest
from ..provenance import provenance
from .layout import LOCAL, VERL

LENGTH = ("iterations", "save_every", "keep")
"""The settings that may change when a run is continued; all others make it what it is."""


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
            present = now.panels.get(split)
            if present is not None and present.digest != panel.digest:
                raise BadFile(
                    f"The tasks of {split!r} are not those that the run was begun with (panel {present.digest}, "
                    f"expected {panel.digest}): data of the environment was changed. Restore it, or start a new run."
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
