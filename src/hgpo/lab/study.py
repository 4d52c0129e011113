"""The whole study: many worlds, seeds and estimators, measured and trained, on several processes.

Every job is decided by its own (world, seed), so the result is the same for any number of processes. The seed is the
unit of repetition: it draws another world of the same kind, another policy and other rollouts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..progress import Progress
from .accuracy import measure
from .entries import ENTRIES, LEARNERS, LEVELLED, Entry, ablations, lambdas
from .learning import PolicyName, learn
from .processes import work_through
from .worlds import WORLDS, make_world

ABLATION_WORLDS = (
    "maze",
    "history",
    "slips",
    "aliased",
    "nothing",
    "pairs",
    "long",
    "memoryless",
    "deeper",
    "actions",
    "first",
    "rare",
)
QUICK_LEARNING = ("maze", "slips", "aliased")
POLICY_NAMES: tuple[PolicyName, ...] = ("table", "network")


@dataclass(frozen=True)
class StudyPlan:
    """How much to do."""

    worlds: tuple[str, ...]
    entries: tuple[Entry, ...]
    lambdas: tuple[Entry, ...]
    """Measured on the same batches, for the table by number of groups."""
    learners: tuple[Entry, ...]
    ablated: tuple[Entry, ...]
    ablation_worlds: tuple[str, ...]
    seeds: int
    """Worlds drawn of each kind for the measures."""
    batches: int
    """Batches of rollouts in each."""
    learning_worlds: tuple[str, ...]
    learning_seeds: int
    updates: int
    """Updates of each trained policy."""
    ablation_seeds: int
    first_seed: int = 0
    """Seeds are numbered from here: others than those an estimator was designed on."""


def full_plan(worlds: Sequence[str] | None, entries: Sequence[Entry] | None, seeds: int | None) -> StudyPlan:
    """The study behind the page in the documentation."""
    chosen = tuple(entries or ENTRIES.values())
    learners = tuple(e for e in chosen if e.label in LEARNERS or e.label not in ENTRIES)
    names = tuple(worlds or WORLDS)
    return StudyPlan(
        worlds=names,
        entries=chosen,
        lambdas=() if entries else tuple(lambdas()),
        learners=learners,
        ablated=() if entries else tuple(ablations()),
        ablation_worlds=tuple(name for name in ABLATION_WORLDS if name in names),
        seeds=seeds or 40,
        batches=64,
        learning_worlds=names,
        learning_seeds=seeds or 30,
        updates=80,
        ablation_seeds=seeds or 20,
    )


def quick_plan(worlds: Sequence[str] | None, entries: Sequence[Entry] | None, seeds: int | None) -> StudyPlan:
    """The same study in small: every world and estimator, few seeds, short training in three worlds."""
    full = full_plan(worlds, entries, seeds)
    return StudyPlan(
        worlds=full.worlds,
        entries=full.entries,
        lambdas=full.lambdas,
        learners=full.learners,
        ablated=(),
        ablation_worlds=(),
        seeds=seeds or 4,
        batches=6,
        learning_worlds=tuple(name for name in QUICK_LEARNING if name in full.worlds) or full.worlds[:2],
        learning_seeds=min(seeds or 3, 3),
        updates=20,
        ablation_seeds=0,
    )


@dataclass(frozen=True)
class StudyJob:
    """One unit of work, done by one process."""

    kind: str
    world: str
    seed: int
    entries: tuple[Entry, ...]
    amount: int
    policy: PolicyName = "table"

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Where its result belongs."""
        return (self.kind, self.world, self.seed, self.policy)

    @property
    def size(self) -> float:
        """Rough amount of work, for the progress bar."""
        return self.amount * len(self.entries)


def jobs(plan: StudyPlan) -> list[StudyJob]:
    """All jobs of a plan, long ones first so that the last minutes are evenly filled."""
    listed = [
        StudyJob("learn", world, seed, plan.learners, plan.updates, policy)
        for policy in POLICY_NAMES
        for seed in range(plan.first_seed, plan.first_seed + plan.learning_seeds)
        for world in plan.learning_worlds
        if plan.learners
    ]
    listed += [
        StudyJob("measure", world, seed, plan.entries + plan.lambdas, plan.batches)
        for seed in range(plan.first_seed, plan.first_seed + plan.seeds)
        for world in plan.worlds
    ]
    listed += [
        StudyJob("ablate", world, seed, plan.ablated, plan.batches // 4)
        for seed in range(plan.first_seed, plan.first_seed + plan.ablation_seeds)
        for world in plan.ablation_worlds
        if plan.ablated
    ]
    return listed


def work(job: StudyJob) -> tuple[tuple[str, str, int, str], dict[str, Any], float]:
    """Do one job; returns its key, its numbers and the processor seconds it took."""
    start = time.process_time()
    world = make_world(job.world, job.seed)
    if job.kind == "learn":
        numbers: dict[str, Any] = {}
        for entry in job.entries:
            numbers[entry.label] = learn(world, entry, job.policy, job.amount).curve.tolist()
    else:
        levelled = LEVELLED if job.kind == "measure" else ()
        measured = measure(world, list(job.entries), job.amount, levelled)
        numbers = asdict(measured)
        numbers["error_correlations"] = {k: v.tolist() for k, v in measured.error_correlations.items()}
    return job.key, numbers, time.process_time() - start


@dataclass(frozen=True)
class StudyResults:
    """Raw results by job key, sorted; and the processor seconds spent."""

    plan: StudyPlan
    results: dict[tuple[str, str, int, str], dict[str, Any]]
    processor_seconds: float

    def of(self, kind: str, world: str, policy: str = "table") -> list[dict[str, Any]]:
        """Results of one kind in one world, by seed."""
        return [r for (k, w, _, p), r in self.results.items() if (k, w, p) == (kind, world, policy)]


def worker() -> Callable[[StudyJob], tuple[tuple[str, str, int, str], dict[str, Any], float]]:
    """What every process does with a job."""
    return work


def run(plan: StudyPlan, processes: int = 1) -> StudyResults:
    """Run a plan; the numbers do not depend on `processes`."""
    todo = jobs(plan)
    results: dict[tuple[str, str, int, str], dict[str, Any]] = {}
    seconds = [0.0]
    with Progress("lab", total=sum(job.size for job in todo)) as bar:
        sizes = {job.key: job.size for job in todo}

        def done(result: tuple[tuple[str, str, int, str], dict[str, Any], float]) -> None:
            key, numbers, spent = result
            results[key] = numbers
            seconds[0] += spent
            bar.add(sizes[key])

        work_through(worker, todo, processes, done)
    return StudyResults(plan, dict(sorted(results.items())), seconds[0])
