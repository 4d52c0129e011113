"""From raw results to numbers with intervals: the JSON document that tables and plots are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..runs.statistics import t95
from .accuracy import groups_name, groups_within
from .entries import OURS
from .records import Document, rounded
from .study import POLICY_NAMES, StudyResults
from .worlds import WORLDS

MEASURES = (
    "mse",
    "gradient_bias",
    "gradient_variance",
    "correlation",
    "sign_agreement",
    "gradient_cosine",
)
LEVEL_MEASURES = (
    "share",
    "mse",
    "gradient_bias",
    "gradient_variance",
    "correlation",
    "sign_agreement",
    "gradient_cosine",
)
CURVE_POINTS = 20
DESIGNED_ON = 10
"""`hgpo_lambda` was designed on the draws below this number of the kinds of worlds there were then."""
UNBOUNDED = ("gradient_bias", "gradient_variance")
BETTER_LOW = {"mse", *UNBOUNDED}


@dataclass(frozen=True)
class Interval:
    """A mean over n seeds and the 95 % interval of Student's t around it."""

    mean: float
    low: float
    high: float
    num: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Mean and interval of independent values; a single value has no width to speak of and gets its own."""
        array = np.asarray(values, dtype=np.float64)
        array = array[np.isfinite(array)]
        count = len(array)
        if count == 0:
            return cls(float("nan"), float("nan"), float("nan"), 0)
        mean = float(array.mean())
        if count == 1:
            return cls(mean, mean, mean, 1)
        half = t95(count - 1) * float(array.std(ddof=1)) / count**0.5
        return cls(mean, mean - half, mean + half, count)

    def as_json(self) -> dict[str, Any]:
        """For the JSON file; what is not a number is null there."""
        low, high = _number(self.low), _number(self.high)
        return {"mean": _number(self.mean), "interval": [low, high], "seeds": self.num}

    def text(self, digits: int = 2, signed: bool = False) -> str:
        """`0.52 ± 0.03`."""
        sign = "+" if signed else ""
        return f"{self.mean:{sign}.{digits}f} ± {(self.high - self.low) / 2:.{digits}f}"


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def summarise(results: StudyResults) -> Document:
    """The whole document; `records` has one entry per world and estimator."""
    plan = results.plan
    document: Document = {
        "schema_version": 2,
        "kind": "worlds",
        "plan": {
            "first_seed": plan.first_seed,
            "seeds": plan.seeds,
            "batches": plan.batches,
            "learning_seeds": plan.learning_seeds,
            "updates": plan.updates,
            "ablation_seeds": plan.ablation_seeds,
            "estimators": {entry.label: {entry.estimator: entry.settings} for entry in plan.entries},
        },
        "processor_seconds": round(results.processor_seconds, 1),
        "worlds": {name: world(results, name) for name in plan.worlds},
        "records": [record(results, name, entry.label) for name in plan.worlds for entry in plan.entries],
        "aggregate": aggregate(results),
        "groups": by_groups(results),
        "unseen": unseen(results),
        "levels": levels(results),
        "learning": curves(results),
        "ablations": ablations(results),
    }
    return dict(rounded(document))


def world(results: StudyResults, name: str) -> Document:
    """What a kind of world is, and what its draws were like."""
    measured = results.of("measure", name)
    return {
        "purpose": WORLDS[name].purpose,
        "knobs": asdict(WORLDS[name].knobs),
        "success": Interval.of([r["success"] for r in measured]).as_json(),
        "steps": Interval.of([r["steps"] for r in measured]).as_json(),
        "shared": Interval.of([r["shared"] for r in measured]).as_json(),
        "ceiling": Interval.of([r["ceilings"]["gradient_cosine"] for r in measured]).as_json(),
    }


def record(results: StudyResults, name: str, label: str) -> Document:
    """All measures of one estimator in one world."""
    measured = results.of("measure", name)
    document: Document = {"world": name, "estimator": label}
    many = [groups_name(number) for number in groups_within(results.plan.batches)[1:]]
    for measure in (*MEASURES, *many):
        document[measure] = Interval.of([r["entries"][label][measure] for r in measured]).as_json()
    for policy in POLICY_NAMES:
        areas = learning_areas(results, name, label, policy)
        if areas:
            document[f"learning_{policy}"] = Interval.of(areas).as_json()
    return document


def learning_areas(results: StudyResults, name: str, label: str, policy: str) -> list[float]:
    """Mean success over training, by seed; empty where this estimator trained nothing."""
    learned = results.of("learn", name, policy)
    return [float(np.mean(r[label])) for r in learned if label in r]


def by_seed(results: StudyResults, label: str, measure: str) -> dict[str, list[float]]:
    """Values of one measure by world, each a list over seeds; empty where it was not measured."""
    by_world: dict[str, list[float]] = {}
    for name in results.plan.worlds:
        if measure.startswith("learning_"):
            values = learning_areas(results, name, label, measure.removeprefix("learning_"))
        else:
            values = [r["entries"][label][measure] for r in results.of("measure", name)]
        if values:
            by_world[name] = values
    return by_world


def mean_over_worlds(values: dict[str, list[float]]) -> list[float]:
    """For each seed the mean over all worlds, every world counting the same."""
    return [float(v) for v in np.nanmean(list(values.values()), axis=0)] if values else []


def over_worlds(values: dict[str, list[float]], measure: str) -> list[float]:
    """For each seed one number for all worlds: the mean, or the median where the measure has no upper end.

    Bias and variance are on the scale of the truth; where an estimator hardly correlates with it (a chain without
    a success) that scale is not determined, and one such world would be all that a mean shows.
    """
    if measure in UNBOUNDED and values:
        return [float(v) for v in np.nanmedian(list(values.values()), axis=0)]
    return mean_over_worlds(values)


def aggregate(results: StudyResults) -> list[Document]:
    """Every estimator over all worlds, and how far ours is ahead of it, seed by seed on the same batches."""
    measures = (*MEASURES, *(f"learning_{policy}" for policy in POLICY_NAMES))
    labels = [entry.label for entry in results.plan.entries]
    documents = []
    for label in labels:
        document: Document = {"estimator": label}
        for measure in measures:
            mine = by_seed(results, label, measure)
            if not mine:
                continue
            document[measure] = Interval.of(over_worlds(mine, measure)).as_json()
            ours = by_seed(results, OURS, measure) if OURS in labels and label != OURS else {}
            if ours:
                document[f"{measure}_ours_ahead"] = lead(ours, mine, measure)
        documents.append(document)
    return documents


def unseen(results: StudyResults) -> list[Document]:
    """How far ours is ahead in gradient cosine on draws that it was not designed on; empty where there are none."""
    plan = results.plan
    first = max(DESIGNED_ON - plan.first_seed, 0)
    labels = [entry.label for entry in plan.entries]
    if first >= plan.seeds or OURS not in labels:
        return []

    def of(label: str) -> dict[str, list[float]]:
        return {name: seeds[first:] for name, seeds in by_seed(results, label, "gradient_cosine").items()}

    ours = of(OURS)
    return [
        {"estimator": label, "ahead": lead(ours, of(label), "gradient_cosine")}
        for label in labels
        if label != OURS
    ]


def by_groups(results: StudyResults) -> list[Document]:
    """Cosine of the gradient averaged over 1, 4, 16, ... groups, over all worlds, and its lead over HGPO-lambda's.

    The row called `ceiling` has the true advantages.
    """
    plan = results.plan
    names = [(number, groups_name(number)) for number in groups_within(plan.batches)]

    def of(label: str, name: str) -> list[float]:
        return mean_over_worlds(
            {
                world: [
                    (r["ceilings"] if label == "ceiling" else r["entries"][label])[name]
                    for r in results.of("measure", world)
                ]
                for world in plan.worlds
            }
        )

    labels = [entry.label for entry in plan.entries + plan.lambdas]
    documents = []
    for label in [*labels, "ceiling"]:
        document: Document = {"estimator": label, "cosine": {}, "ours_ahead": {}}
        for number, name in names:
            values = of(label, name)
            document["cosine"][str(number)] = Interval.of(values).as_json()
            if OURS in labels and label not in (OURS, "ceiling"):
                ahead = [ours - other for ours, other in zip(of(OURS, name), values)]
                document["ours_ahead"][str(number)] = Interval.of(ahead).as_json()
        documents.append(document)
    return documents


def lead(ours: dict[str, list[float]], theirs: dict[str, list[float]], measure: str) -> Document:
    """How much better ours is: over all worlds, and in each; positive is better."""
    sign = -1.0 if measure in BETTER_LOW else 1.0
    differences = {
        name: [sign * (a - b) for a, b in zip(ours[name], theirs[name])] for name in ours if name in theirs
    }
    each = {name: Interval.of(values) for name, values in differences.items()}
    return {
        **Interval.of(over_worlds(differences, measure)).as_json(),
        "worlds": {name: interval.as_json() for name, interval in each.items()},
        "ahead": sorted(name for name, i in each.items() if i.low > 0.0),
        "behind": sorted(name for name, i in each.items() if i.high < 0.0),
        "open": sorted(name for name, i in each.items() if i.low <= 0.0 <= i.high),
    }


def levels(results: StudyResults) -> list[Document]:
    """Each level of each estimator on its own, over all worlds, and how correlated the levels' errors are."""
    documents = []
    for entry in results.plan.entries:
        values: dict[tuple[int, str], dict[str, list[float]]] = {}
        errors: dict[str, list[Any]] = {}
        for name in results.plan.worlds:
            for result in results.of("measure", name):
                for number, measured in enumerate(result["levels"].get(entry.label, [])):
                    for measure in LEVEL_MEASURES:
                        values.setdefault((number, measure), {}).setdefault(name, []).append(
                            measured[measure]
                        )
                if entry.label in result["error_correlations"]:
                    errors.setdefault(name, []).append(result["error_correlations"][entry.label])
        for number in sorted({level for level, _ in values}):
            documents.append(
                {
                    "estimator": entry.label,
                    "level": number,
                    **{
                        measure: Interval.of(over_worlds(values[number, measure], measure)).as_json()
                        for measure in LEVEL_MEASURES
                    },
                    "error_correlation_with_level_0": error_correlation(list(errors.values()), number),
                }
            )
    return documents


def error_correlation(matrices: Sequence[Any], level: int) -> Document:
    """Correlation of a level's errors with those of level 0, over worlds, by seed."""
    shared = min((len(m) for m in matrices), default=0)
    values = np.array([[seed[0][level] for seed in m[:shared]] for m in matrices], dtype=np.float64)
    means = [float(np.nanmean(column)) for column in values.T if np.isfinite(column).any()]
    return Interval.of(means).as_json()


def curves(results: StudyResults) -> list[Document]:
    """Mean learning curve of each estimator in each world, at some twenty updates, with intervals."""
    documents = []
    for policy in POLICY_NAMES:
        for name in results.plan.worlds:
            learned = results.of("learn", name, policy)
            for entry in results.plan.learners:
                runs = np.array([r[entry.label] for r in learned if entry.label in r])
                if not len(runs):
                    continue
                kept = np.arange(0, runs.shape[1], max(1, (runs.shape[1] - 1) // CURVE_POINTS))
                intervals = [Interval.of(runs[:, update].tolist()) for update in kept]
                documents.append(
                    {
                        "policy": policy,
                        "world": name,
                        "estimator": entry.label,
                        "updates": kept.tolist(),
                        "success": [interval.mean for interval in intervals],
                        "half_width": [interval.high - interval.mean for interval in intervals],
                    }
                )
    return documents


def ablations(results: StudyResults) -> list[Document]:
    """Every variation over the ablation worlds, and in each of them."""
    documents = []
    plan = results.plan
    for entry in plan.ablated:
        document: Document = {"variation": entry.label, "worlds": {}}
        for measure in ("mse", "gradient_cosine"):
            values = {
                name: [r["entries"][entry.label][measure] for r in results.of("ablate", name)]
                for name in plan.ablation_worlds
            }
            document[measure] = Interval.of(mean_over_worlds(values)).as_json()
            for name, seeds in values.items():
                document["worlds"].setdefault(name, {})[measure] = Interval.of(seeds).as_json()
            if entry.label != entry.estimator:
                differences = {
                    name: [
                        r["entries"][entry.label][measure] - r["entries"][entry.estimator][measure]
                        for r in results.of("ablate", name)
                    ]
                    for name in plan.ablation_worlds
                }
                document[f"{measure}_change"] = Interval.of(mean_over_worlds(differences)).as_json()
                for name, seeds in differences.items():
                    document["worlds"][name][f"{measure}_change"] = Interval.of(seeds).as_json()
        documents.append(document)
    return documents
