"""The policy in training at play: what rollouts sample from, and its success on the panels."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..config.schema import Config
from ..learn.distributed import Processes
from ..play.metrics import panel_metrics
from ..play.stage import Stage
from ..policies.hf.policy import HFPolicy, Sampling, fast_decoder
from .panels import Panel
from .play import run_panel
from .stopping import Stop, StoppablePolicy
from .tracking import Screen


class Player:
    """Plays with the weights of `actor` as they are at that moment; `refresh` after every update."""

    def __init__(
        self, actor: Any, tokenizer: Any, config: Config, stage: Stage, processes: Processes, stop: Stop
    ) -> None:
        self.actor, self.tokenizer, self.config = actor, tokenizer, config
        self.stage, self.processes, self.stop = stage, processes, stop
        self.decoder = fast_decoder(actor, tokenizer, config.agent.max_response_tokens)

    def refresh(self) -> None:
        """Take over the actor's weights."""
        if self.decoder is not None:
            self.decoder.refresh(self.actor)

    def policy(self, temperature: float) -> HFPolicy:
        """A policy with counters of its own that ends its batch when a stop is asked for."""
        config = self.config
        executor = ThreadPoolExecutor(1, "hgpo-policy") if self.stage.blocking else None
        sampling = Sampling(temperature, config.agent.max_response_tokens, config.rollout.batch_tokens)
        return StoppablePolicy(self.actor, self.tokenizer, sampling, executor, self.decoder, self._check)

    def _check(self) -> None:
        # With several processes all must stop at the same place: the end of the iteration.
        if self.processes.size == 1:
            self.stop.check()

    def evaluate(self, panels: Mapping[str, Panel], screen: Screen) -> dict[str, float]:
        """Success on every panel, played by the first process and told to all (collective)."""
        values: dict[str, float] = {}
        if self.processes.first:
            settings = self.config.eval
            for split, panel in panels.items():
                screen.now(f"evaluating on {len(panel.tasks)} tasks of {split}")
                policy = self.policy(settings.temperature)
                result = run_panel(self.stage, policy, panel, [settings.seed], settings.temperature)
                measured = panel_metrics(result.episodes[0])
                values |= {f"eval/{split}/{name}": value for name, value in measured.items()}
        return self.processes.gather(values)[0]
