"""The agent loop `hgpo`: one rollout of one dataset row, played by our own episode runner.

It returns one output per step. verl stores them under `{uid}_{session}_{step}`; our record of the step (the columns
of `StepBatch`) travels in `extra_fields["hgpo"]`, because verl's own reward column holds the episode's
return on every step.
"""

from __future__ import annotations

from typing import Any

import transfer_queue as tq
from verl.experimental.agent_loop import agent_loop as registry
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

from ..config.schema import Config
from ..errors import BadSetting, EnvironmentFailed
from ..play import Episode, Job, record
from ..play.metrics import panel_metrics
from ..seeds import derive
from .names import AGENT, CPU_ROLLOUT
from .play import worker_stage
from .policy import ServerPolicy

RECORD = "hgpo"
"""Key of our record in `extra_fields`."""
CAUSE = "hgpo_failure"
"""Tag of a group in TransferQueue: why one of its rollouts was given up."""
FAILED = "hgpo_failures_"
"""Tags of a group, one per lost rollout: how often its environment failed."""
TOKENS = ("prompt_ids", "response_ids", "logprobs")
"""Columns of a record that verl carries itself."""


class HgpoAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays a row's task on verl's rollout servers."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        """Play one rollout.

        Args:
            sampling_params: verl's sampling parameters.
            kwargs: the dataset row, with verl's `uid`, `session_id` and `global_steps`.

        Raises:
            EnvironmentFailed: the environment failed too often; verl then counts the row's group as failed.
        """
        worker = worker_stage(self.config)
        config = worker.config
        row, job = row_of(kwargs), make_job(config, kwargs)
        rollout = self.rollout_config
        policy = ServerPolicy(
            self.server_manager,
            worker.encoder(self.tokenizer),
            sampling_params,
            max_new_tokens=config.agent.max_response_tokens,
            session=session_of(self.config, kwargs),
            seeded=rollout.name == CPU_ROLLOUT or (rollout.full_determinism and rollout.name == "vllm"),
        )
        longest = config.eval.max_steps if row["purpose"] == "eval" else 0
        collection = await worker.rollout(policy, job, longest)
        if not collection.episodes:
            cause = collection.causes[-1] if collection.causes else "no cause given"
            # A tag on the group reaches the trainer, which counts and names it; the worker's log does not.
            async with worker.tags:
                await tq.async_kv_put(
                    key=kwargs["uid"],
                    partition_id="train" if row["purpose"] == "train" else "val",
                    tag={CAUSE: cause, f"{FAILED}{kwargs['session_id']}": collection.failures},
                )
            raise EnvironmentFailed(cause)
        (episode,) = collection.episodes
        return outputs(episode, policy, config, collection.failures, self.tokenizer.eos_token_id)


def session_of(config: Any, kwargs: dict[str, Any]) -> str:
    """The name under which a rollout asks; verl's router sends equal names to the same server.

    Rollouts of a group see the same task and often the same prompts, so they share a server and its prefix cache, as
    long as there are groups enough for all servers. Under verl's full determinism the name is also the request's own,
    which must then be unique.
    """
    rollout = config.actor_rollout_ref.rollout
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    servers = max(1, gpus // max(1, rollout.tensor_model_parallel_size))
    if rollout.full_determinism or config.data.train_batch_size < 2 * servers:
        return f"{kwargs['uid']}-{kwargs['session_id']}"
    return str(kwargs["uid"])


def row_of(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What `hgpo verl data` wrote into the row."""
    row = kwargs.get("extra_info") or {}
    missing = [key for key in ("task", "group", "seed", "purpose") if key not in row]
    if missing:
        raise BadSetting(
            f"A dataset row has no {', '.join(missing)} in its extra_info (it has {', '.join(row) or 'nothing'}). "
            "Write the dataset with `hgpo verl data` (`hgpo verl launch` does it by itself)."
        )
    return dict(row)


def make_job(config: Config, kwargs: dict[str, Any]) -> Job:
    """The episode that a row, a repeat of it and a step of the training name.

    The environment starts from the row's own seed, so all repeats start alike; the replies are sampled with the seeds
    that the local trainer uses for the same run, iteration, group and repeat.
    """
    row, session = row_of(kwargs), int(kwargs["session_id"])
    if row["purpose"] == "train":
        seed = derive(config.seed, "rollout", int(kwargs["global_steps"]), str(row["group"]), session)
    else:
        seed = int(row["seed"]) if session == 0 else derive(int(row["seed"]), session)
    # verl's uid keeps apart two draws of one task in an iteration.
    group = f"{row['group']}#{kwargs['uid']}"
    return Job(str(row["task"]), group, session, seed, int(row["seed"]))


def outputs(
    episode: Episode, policy: ServerPolicy, config: Config, failures: int, end_id: int
) -> list[AgentLoopOutput]:
    """The steps of an episode as verl wants them; only the last one carries the episode's return."""
    batch = record([episode], inadmissible_is_invalid=config.agent.inadmissible_is_invalid)
    result = []
    for step, row in zip(episode.steps, batch.rows()):
        ours = {name: value for name, value in row.items() if name not in TOKENS}
        ours["environment_failures"] = failures
        # verl cannot hold a reply of no tokens; an end token that is masked out trains nothing.
        ids = list(step.response_ids) or [end_id]
        mask = [1 if step.response_ids else 0] * len(ids)
        result.append(
            AgentLoopOutput(
                prompt_ids=list(step.prompt_ids),
                response_ids=ids,
                response_mask=mask,
                response_logprobs=(list(step.logprobs) or [0.0] * len(ids)) if _logged(episode) else None,
                num_turns=2 * (step.index + 1),
                metrics={},
                extra_fields={**policy.fields.get(step.index, {}), RECORD: ours},
            )
        )
    # verl copies the last output's score and information to all others.
    result[-1].reward_score = episode.reward
    result[-1].extra_fields["reward_extra_info"] = panel_metrics([episode])
    return result


def _logged(episode: Episode) -> bool:
    """Whether the servers gave log-probabilities."""
    return any(step.logprobs for step in episode.steps)


def register() -> None:
    """Make the loop known to verl in this process."""
    registry.register(AGENT)(HgpoAgentLoop)
