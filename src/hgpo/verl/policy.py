"""verl's rollout servers behind our `Policy` protocol: what the episode runner asks for its replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..play.policy import Reply, Request
from ..policies.encoding import PromptEncoder


class ServerPolicy:
    """One rollout's policy: requests of one session go to the same server, which keeps their prefixes in its cache.

    Args:
        servers: verl's client of the rollout servers (`generate(request_id, prompt_ids=, sampling_params=)`).
        encoder: encodes prompts for the model's tokenizer.
        sampling: verl's sampling parameters (temperature, top_p, ...).
        max_new_tokens: longest reply.
        session: name by which verl's router finds their server.
        seeded: send the request's own seed along. Servers that honour it answer alike in every run.
    """

    def __init__(
        self,
        servers: Any,
        encoder: PromptEncoder,
        sampling: Mapping[str, Any],
        *,
        max_new_tokens: int,
        session: str,
        seeded: bool,
    ) -> None:
        self.servers, self.encoder = servers, encoder
        self.sampling = {**sampling, "max_tokens": max_new_tokens}
        self.max_new_tokens, self.session, self.seeded = max_new_tokens, session, seeded
        self.fields: dict[int, dict[str, Any]] = {}
        """By step: what the server said beside the tokens (which weights it sampled from)."""

    async def encode(self, prompt: str) -> Sequence[int]:
        """The prompt as the local trainer tokenises it."""
        return self.encoder(prompt)

    async def generate(self, request: Request) -> Reply:
        """Ask the server."""
        sampling = dict(self.sampling)
        if self.seeded:
            sampling["seed"] = request.seed
        output = await self.servers.generate(
            self.session, prompt_ids=list(request.prompt_ids), sampling_params=sampling
        )
        self.fields[request.step] = dict(output.extra_fields)
        ids = list(output.token_ids)
        return Reply(
            self.encoder.tokenizer.decode(ids, skip_special_tokens=True),
            ids,
            list(output.log_probs) if output.log_probs is not None else [],
            truncated=len(ids) >= self.max_new_tokens,
        )

    def finish(self, episode: str) -> None:
        """Nothing is kept for an episode."""
