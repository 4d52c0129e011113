"""The policy in training at play: what rollouts sample from, and its success on the panels."""

from __future__ import annotations

from collections.abc import Mapping

from ..config.schema import EvalConfig
from ..learn.distributed import Processes
from ..play.policy import Policy
from ..play.stage import Stage
from ..policies.engine import Engine
from .panels import Panel
from .play import run_panel
from .stopping import Stop, StoppablePolicy
from .tracking import Screen


class Player:
    """Plays with an engine, whichever it is; whoever updates the weights gives them to `engine.load`."""

    def __init__(self, engine: Engine, stage: Stage, processes: Processes, stop: Stop) -> None:
        self.engine, self.stage, self.processes, self.stop = engine, stage, processes, stop

    def policy(self, temperature: float) -> Policy:
        """A policy that asks for nothing more when a stop is requested."""
        policy = self.engine.policy(temperature)
        # Several processes must stop at the same place: the end of the iteration.
        return policy if self.processes.size > 1 else StoppablePolicy(policy, self.stop)

    def evaluate(self, panels: Mapping[str, Panel], settings: EvalConfig, screen: Screen) -> dict[str, float]:
        """Success on every panel; every process plays its share and gets the result (collective)."""
        values: dict[str, float] = {}
        for split, panel in panels.items():
            screen.now(f"evaluating on {len(panel.tasks)} tasks of {split}")
            policy = self.policy(settings.temperature)
            result = run_panel(
                self.stage, policy, panel, [settings.seed], settings.temperature, peers=self.processes
            )
            if result.lost:
                screen.say(f"{split}: {result.holes()}")
            values |= {f"eval/{split}/{name}": value for name, value in result.metrics().items()}
        return values
