"""What the estimators share that judge a step by the state it led to: GraphGPO and G2PO.

Their targets are compared as GiGPO compares returns (depth 0), or as HGPO does (deeper).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..settings import Settings, setting
from ..steps.columns import BoolArray, FloatArray
from . import base, hgpo
from .base import Record
from .contexts import Key
from .episode import EpisodeRule, compare_episodes
from .gigpo import compare_states
from .terms import Result, Score, Term, plain_sum

EPISODE = EpisodeRule(normalise_over="steps", std="sample", epsilon=1e-6, single="raw")
"""The episode term of the released code, which GiGPO and its successors share."""


@dataclass(frozen=True)
class SuccessorSettings(Settings):
    """Settings that say how targets are compared; those of an estimator add how its targets are made."""

    depth: int = setting(
        0,
        "0 compares steps in the same state, as published; deeper levels share history and are mixed "
        "as in HGPO.",
        low=0,
        high=1000,
    )
    mode: base.Mode = setting(
        "mean_std_norm",
        "Divide both terms by the deviation of their group (mean_std_norm) or not (mean_norm).",
    )
    episode_w: float = setting(1.0, "Weight of the episode term.", low=0.0)
    step_advantage_w: float = setting(1.0, "Weight of the step term.", low=0.0)
    invalid_penalty: float = setting(
        0.0,
        "Subtracted from the target, and from the episode's score, of each action that is not valid.",
        low=0.0,
    )
    key: Key = setting("observation", "What makes two steps comparable.")
    similarity: float = setting(
        1.0, "Merge texts of one task that are at least this similar; 1 merges none.", above=0.0, high=1.0
    )


def compare(
    record: Record,
    targets: FloatArray,
    s: SuccessorSettings,
    score: Callable[[], Score],
    more: tuple[FloatArray, Term] | None = None,
) -> Result:
    """Episode term plus w times the step term of targets [steps] against those of the same state (or nested contexts).

    `score` says where the targets come from; `more` is a further part [steps] of the step term, with its term.
    """
    levels = record.levels(s.key, s.similarity, s.depth)
    terms: tuple[Term, ...]
    if s.depth == 0:
        step, term = compare_states(levels[0], targets, s.mode, "sample", EPISODE.epsilon)
        terms = (term,)
    else:
        chosen = hgpo.HgpoSettings(depth=s.depth, mode=s.mode)
        step, terms = hgpo.mix(record, levels, targets, chosen, hgpo.VARIANTS["released"])
    if more is not None:
        step, terms = step + more[0], (*terms, more[1])
    episode = compare_episodes(record, s.mode, EPISODE, s.invalid_penalty)
    advantages = s.episode_w * episode.advantages + s.step_advantage_w * step
    both = (
        episode.term(lambda: np.full(len(step), s.episode_w)),
        *(term.times(s.step_advantage_w) for term in terms),
    )
    return Result(advantages, targets, levels, plain_sum(advantages, both), score)


def succeeded(record: Record) -> BoolArray:
    """The last steps of successful trajectories. Bool [steps].

    A trajectory succeeded when its last row has `success`, or without that column when its last reward is positive.
    """
    if "success" in record.batch:
        flagged: BoolArray = record.last & record.batch.flag("success")[record.trajectories.order]
        return flagged
    rewarded: BoolArray = record.last & (record.rewards > 0.0)
    return rewarded
