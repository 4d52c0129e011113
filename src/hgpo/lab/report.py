"""The page of the study: tables and words around the numbers of the JSON document."""

from __future__ import annotations

from typing import Any

from .entries import OURS
from .tables import table

NAMES = {
    "mse": "squared error",
    "gradient_cosine": "gradient cosine",
    "learning_table": "learning, table",
    "learning_network": "learning, network",
}
RIVALS = ("g2po", "graphgpo", "hgpo", "gigpo", "grpo")


def show(value: dict[str, Any] | None, digits: int = 2, signed: bool = False) -> str:
    """`0.52 ± 0.03`, or a dash where there is nothing."""
    if not value or value["mean"] is None:
        return "–"
    if abs(value["mean"]) >= 10.0:
        digits = 0
    half = (value["interval"][1] - value["interval"][0]) / 2
    return f"{value['mean']:{'+' if signed else ''}.{digits}f} ± {half:.{digits}f}"


def aggregate_table(document: dict[str, Any]) -> str:
    """All estimators over all worlds."""
    measures = [m for m in NAMES if any(m in row for row in document["aggregate"])]
    measures[1:1] = ["gradient_bias", "gradient_variance", "correlation", "sign_agreement"]
    head = ["estimator", *(NAMES.get(m, m.replace("_", " ")) for m in measures)]
    rows = [[f"`{r['estimator']}`", *(show(r.get(m)) for m in measures)] for r in document["aggregate"]]
    ceilings = [w["ceiling"]["mean"] for w in document["worlds"].values()]
    known = {"mse": "0", "gradient_bias": "0", "correlation": "1", "sign_agreement": "1"}
    known["gradient_cosine"] = f"{sum(ceilings) / len(ceilings):.2f}"
    return table(head, [*rows, ["ceiling (true advantages)", *(known.get(m, "–") for m in measures)]])


def groups_table(document: dict[str, Any]) -> str:
    """Cosine of the gradient averaged over more and more groups."""
    numbers = list(document["groups"][0]["cosine"])
    rows = []
    for row in document["groups"]:
        name = "ceiling (true advantages)" if row["estimator"] == "ceiling" else f"`{row['estimator']}`"
        rows.append([name, *(show(row["cosine"][number], 3) for number in numbers)])
    heads = [f"{number} group{'s' if number != '1' else ''}" for number in numbers]
    return table(["estimator", *heads], rows)


def groups_text(document: dict[str, Any]) -> str:
    """In words: the best lambda for each number of groups, and how far the default is from it."""
    by_label = {row["estimator"]: row for row in document["groups"]}
    ours = {OURS: "0.5"} | {
        label: label.partition("lam=")[2] for label in by_label if label.startswith(f"{OURS} lam=")
    }
    if len(ours) < 2:
        return ""
    lines = []
    for number in by_label[OURS]["cosine"]:
        ranked = sorted(ours, key=lambda label: -by_label[label]["cosine"][number]["mean"])
        best = ranked[0]
        told = "the default"
        if best != OURS:
            ahead = negative(by_label[best]["ours_ahead"][number])
            told = f"{show(ahead, 3, signed=True)} from the default 0.5"
        mean = by_label[best]["cosine"][number]["mean"]
        groups = "1 group" if number == "1" else f"{number} groups"
        lines.append(f"- {groups}: lambda {ours[best]} ({mean:.3f}), {told}.")
    return "\n".join(
        ["The best lambda on average over the worlds, by the number of groups in an update:", "", *lines]
    )


def depth_text(document: dict[str, Any]) -> str:
    """In words: what depth adds."""
    by_label = {row["variation"]: row for row in document["ablations"]}
    parts = []
    for name in ("hgpo", OURS):
        row = by_label.get(f"{name} depth=0")
        if row is None:
            continue
        change = negative(row["gradient_cosine_change"])
        worlds = {world: negative(one["gradient_cosine_change"]) for world, one in row["worlds"].items()}
        told = {world: f"{world} ({show(one, 3, signed=True)})" for world, one in worlds.items()}
        # A difference that rounds to nothing is none, however sure it is.
        seen = {world: one["interval"] for world, one in worlds.items() if abs(one["mean"]) >= 0.0005}
        gains = [told[world] for world, (low, _) in seen.items() if low > 0.0]
        costs = [told[world] for world, (_, high) in seen.items() if high < 0.0]
        parts.append(
            f"- `{name}`: depth 2 against depth 0 changes the gradient cosine by {show(change, 3, signed=True)} on "
            f"average; up in {', '.join(gains) or 'no world'}; down in {', '.join(costs) or 'no world'}."
        )
    return "\n".join(parts)


def unseen_table(document: dict[str, Any]) -> str:
    """The lead on new draws, over all worlds, with the worlds ahead, open and behind."""
    rows = []
    for row in document["unseen"]:
        ahead = row["ahead"]
        counts = f"{len(ahead['ahead'])}/{len(ahead['open'])}/{len(ahead['behind'])}"
        rows.append([f"`{row['estimator']}`", show(ahead, 3, signed=True), counts])
    return table(["against", "gradient cosine", "ahead / not told apart / behind"], rows)


def negative(value: dict[str, Any]) -> dict[str, Any]:
    """The same difference seen from the other side."""
    low, high = value["interval"]
    return {**value, "mean": -value["mean"], "interval": [-high, -low]}


def lead_table(document: dict[str, Any]) -> str:
    """How far ours is ahead of each other estimator, over all worlds."""
    measures = [m for m in NAMES if any(f"{m}_ours_ahead" in r for r in document["aggregate"])]
    rows = []
    for row in document["aggregate"]:
        if row["estimator"] == OURS:
            continue
        cells = [f"`{row['estimator']}`"]
        for measure in measures:
            ahead = row.get(f"{measure}_ours_ahead")
            counts = f" ({len(ahead['ahead'])}/{len(ahead['open'])}/{len(ahead['behind'])})" if ahead else ""
            cells.append(show(ahead, 3, signed=True) + counts)
        rows.append(cells)
    return table(["against", *(NAMES[m] for m in measures)], rows)


def verdict(document: dict[str, Any]) -> str:
    """In words: where ours is ahead of the published estimators, and where not."""
    lines = []
    for row in document["aggregate"]:
        if row["estimator"] not in RIVALS:
            continue
        for measure, name in NAMES.items():
            ahead = row.get(f"{measure}_ours_ahead")
            if not ahead:
                continue
            low, high = ahead["interval"]
            overall = "ahead" if low > 0 else "behind" if high < 0 else "not told apart"
            text = f"- {name} against `{row['estimator']}`: {overall} on the aggregate"
            text += f" ({show(ahead, 3, signed=True)}); ahead in {len(ahead['ahead'])} of {len(ahead['worlds'])} worlds"
            if ahead["open"]:
                text += f", not told apart in {', '.join(ahead['open'])}"
            if ahead["behind"]:
                text += f", behind in {', '.join(ahead['behind'])}"
            lines.append(text + ".")
    return "\n".join(lines)


def world_table(document: dict[str, Any], measure: str) -> str:
    """One measure by world and estimator."""
    labels = list(dict.fromkeys(r["estimator"] for r in document["records"] if measure in r))
    values = {(r["world"], r["estimator"]): r.get(measure) for r in document["records"]}
    ceiling = measure == "gradient_cosine"
    head = ["world", *(f"`{label}`" for label in labels), *(["ceiling"] if ceiling else [])]
    rows = []
    for name, world in document["worlds"].items():
        row = [name, *(show(values.get((name, label))) for label in labels)]
        rows.append(row + ([show(world["ceiling"])] if ceiling else []))
    return table(head, rows)


def worlds_table(document: dict[str, Any]) -> str:
    """What the worlds are."""
    rows = []
    for name, world in document["worlds"].items():
        knobs = world["knobs"]
        rows.append(
            [
                name,
                world["purpose"],
                str(knobs["group_size"]),
                str(knobs["horizon"]),
                f"{world['steps']['mean']:.1f}",
                f"{world['shared']['mean']:.0%}",
                show(world["success"]),
            ]
        )
    head = ["world", "what it shows", "rollouts", "horizon", "steps taken", "shared", "success"]
    return table(head, rows, 2)


def level_table(document: dict[str, Any]) -> str:
    """Levels on their own."""
    measures = [m for m in document["levels"][0] if m not in ("estimator", "level")]
    head = ["estimator", "level", *(m.replace("_", " ") for m in measures)]
    rows = [
        [f"`{row['estimator']}`", str(row["level"]), *(show(row[m]) for m in measures)]
        for row in document["levels"]
    ]
    return table(head, rows)


def ablation_table(document: dict[str, Any]) -> str:
    """Variations by world."""
    names = list(document["ablations"][0]["worlds"])
    head = [
        "variation",
        "squared error",
        "gradient cosine",
        "change",
        *(f"{name} (cosine)" for name in names),
    ]
    rows = []
    for row in document["ablations"]:
        cells = [row["variation"], show(row["mse"]), show(row["gradient_cosine"])]
        cells.append(show(row.get("gradient_cosine_change"), 3, signed=True))
        cells += [f"{row['worlds'][name]['gradient_cosine']['mean']:.2f}" for name in names]
        rows.append(cells)
    return table(head, rows)


def terminal(document: dict[str, Any]) -> str:
    """What the command prints."""
    lines = aggregate_table(document)
    return f"{lines}\n\n{verdict(document)}" if len(document["aggregate"]) > 1 else lines


def opening(worlds: dict[str, Any] | None, games: dict[str, Any]) -> str:
    """The first words of the page."""
    return OPENING


def sections(document: dict[str, Any], plots: set[str]) -> list[str]:
    """The page's part on small worlds."""
    plan = document["plan"]
    minutes = f"{document['processor_seconds'] / 60:.0f}"
    pictures = {name: f"![{name.removesuffix('.svg')}](lab/{name})" for name in plots}
    parts = [
        "## In small worlds",
        INTRODUCTION.format(command=document["command"], minutes=minutes, **plan),
        "### The worlds",
        worlds_table(document),
        WORLDS_TEXT,
        "### All estimators over all worlds",
        aggregate_table(document),
        AGGREGATE_TEXT,
        pictures.get("gradient_cosine.svg", ""),
        pictures.get("mse.svg", ""),
    ]
    if len(document["groups"][0]["cosine"]) > 1:
        parts += ["### Averaged over groups", GROUPS_TEXT, groups_table(document), groups_text(document)]
        parts += [pictures.get("groups.svg", "")]
    if any(row["estimator"] == OURS for row in document["aggregate"]):
        parts += [f"### How far `{OURS}` is ahead", lead_table(document), LEAD_TEXT, verdict(document)]
    if document["unseen"]:
        parts += ["### On draws not seen before", UNSEEN_TEXT, unseen_table(document)]
    if document["ablations"]:
        parts += ["### What depth adds", DEPTH_TEXT, depth_text(document)]
    for measure, name in (*NAMES.items(), ("gradient_cosine_64", "gradient cosine of 64 groups")):
        if any(measure in record for record in document["records"]):
            parts += [f"### {name.capitalize()} by world", world_table(document, measure)]
            picture = pictures.get(f"{measure}.svg") if measure.startswith("learning") else None
            parts += [picture] if picture else []
    if document["levels"]:
        parts += ["### The levels on their own", level_table(document), LEVEL_TEXT]
    if document["ablations"]:
        parts += [
            "### Variations",
            ABLATION_TEXT,
            ablation_table(document),
            pictures.get("variations.svg", ""),
        ]
    return parts


OPENING = """What each estimator makes of the same rollouts, where the true advantage of every step is known: measured
in real engines, by playing on from copies of every state, and computed exactly in small worlds. How
`hgpo_lambda` is derived: [HGPO-lambda](hgpo-lambda.md). Every section names the command that made its numbers; the
records beside this page (`lab/*.json`) have all of them."""

INTRODUCTION = """These tables and plots are written by

```sh
{command} --out docs
```

({minutes} minutes of processor time, shared between the cores) with {seeds} worlds drawn of each kind and {batches}
groups of rollouts in each for the measures; {learning_seeds} policies of each kind trained for {updates} updates;
every ± is the half width of a 95 % interval over those draws. `hgpo lab --quick` does the same in small, within a
minute, and `hgpo lab --estimators hgpo,hgpo_lambda:lam=0.9 --worlds maze,slips` compares what you like. The measures
are defined in `hgpo/lab/accuracy.py`."""

WORLDS_TEXT = """Unless said otherwise a world has 10 states and 4 actions, moves are deterministic, reward is 10 at the
goal and nothing before, the discount is 0.95, and the policy sees the present observation and the two before it: its
logits are random for each such context. The truth is computed by dynamic programming over world state, memory and time;
the horizon ends the task except in `cut`. *Shared* is the share of steps whose observation another rollout of the group
saw too; "success" is the chance to reach the goal before training. Every estimator has its published settings; `_mean`
are those without deviations. `grpo` compares trajectories, as first published; `grpo_rows` compares step rows, in which
a long rollout counts more, as the recipe for agents does. Estimators with levels look two steps back, whatever the
policy remembers."""

AGGREGATE_TEXT = """*Squared error* is relative to the true advantages' own square, after the best constant factor: 1
is as good as silence. It charges an estimator for a baseline that is not the state's value, which costs no gradient
anything; *gradient bias* does not: it is one minus the squared cosine of the *expected* gradient with the true one, 0
for an unbiased estimator such as RLOO, whose figure shows the noise of this measurement. *Gradient variance* is that of
one group's gradient, over the square of the true one (both: the median over worlds). *Gradient cosine* is between the
gradient of one group and the true gradient; even true advantages do not reach 1, because a group contains only some of
the steps that could have been taken: that is the ceiling. *Learning* is the mean chance of success over training, of a
table of logits and of a small network."""

GROUPS_TEXT = """One group of eight rollouts is less than an update sees, and it flatters an estimator with little noise
and some bias: averaging takes the noise away and leaves the bias. The cosine of the mean gradient of 1, 4, 16 and 64
groups of the same world, mean over all worlds:"""

DEPTH_TEXT = """On average over these worlds depth adds nothing: comparing steps that share two steps of history instead
of the state alone changes next to nothing, also where the policy's choices depend on that history. What it can do is
tell states apart that look alike, and only the estimator that shrinks small groups toward large ones gains by it:"""

LEAD_TEXT = """Differences on the same groups, positive is better for ours; in brackets the worlds in which ours is
ahead / not told apart / behind, each by its own 95 % interval."""

UNSEEN_TEXT = """The design of `hgpo_lambda` was chosen on the first ten draws of the worlds of that time (those from
`memoryless` to `rare` were added later). On the other draws alone its lead in gradient cosine is"""

LEVEL_TEXT = """Each level's advantage alone, on the steps where it has one (*share*); for `hgpo_lambda` before actions
are pooled. The paper's Proposition 4.1 assumes that the errors of the levels are uncorrelated; the last column is that
correlation."""

ABLATION_TEXT = """What the released code cannot vary: depth apart from the policy's memory, the weights' exponent, the
base group, the key; and the settings of ours. Fewer draws than above, so compare within this table; *change* is the
difference in gradient cosine from the estimator as it is, on the same groups."""
