"""Words and tables around the numbers of a study in a real engine."""

from __future__ import annotations

import re
from typing import Any

from .entries import ENTRIES, OURS
from .tables import table

TOO_NOISY = 0.6
"""Share of noise in the measured truth from which a study says so."""


def show(value: dict[str, Any] | None, digits: int = 2, signed: bool = False) -> str:
    """`0.47 [0.38, 0.55]`, or a dash where there is nothing."""
    if not value or value["mean"] is None:
        return "–"
    sign = "+" if signed else ""
    low, high = (f"{bound:{sign}.{digits}f}" for bound in value["interval"])
    return f"{value['mean']:{sign}.{digits}f} [{low}, {high}]"


def who(document: dict[str, Any]) -> str:
    """The policy in words."""
    policy = document["policy"]
    if "noise" in policy:
        return f"the expert, {policy['noise']:.0%} of whose steps go wrong"
    return f"the model `{policy['name']}` at temperature {policy['temperature']:g}"


def head(document: dict[str, Any]) -> str:
    """What was played, in a sentence."""
    plan = document["plan"]
    settings = ", ".join(
        f"{name} {' and '.join(value) if isinstance(value, list) else value}"
        for name, value in plan["env"].items()
    )
    return (
        f"{plan['games']} games of `{document['engine']}`{f' ({settings})' if settings else ''}, {plan['rollouts']} "
        f"rollouts of each by {who(document)} (success {document['success']:.0%}, {document['steps']:.1f} steps); "
        f"{plan['continuations']} continuations from every state; K = {plan['history_length']}"
    )


def rows(document: dict[str, Any], labels: list[str] | None = None) -> str:
    """Cosine, error and the lead of ours, by estimator."""
    chosen = [r for r in document["estimators"] if labels is None or r["estimator"] in labels]
    cells = [
        [
            f"`{row['estimator']}`",
            show(row["cosine"]),
            show(row["error"]),
            show(row.get("ours_ahead"), signed=True),
        ]
        for row in chosen
    ]
    return table(["estimator", "cosine", "squared error", f"`{OURS}` ahead by"], cells)


def noise(document: dict[str, Any]) -> str:
    """In a sentence: how much of the measured truth was noise, and what to do where it is most of it."""
    share, continuations = document["noise_share"], document["plan"]["continuations"]
    said = f"Of the squares of the measured advantages {share:.0%} is noise of the {continuations} continuations, "
    said += "which is taken out."
    if share > TOO_NOISY:
        said += " That is most of them, so the intervals say little: raise --continuations."
    return said


def terminal(document: dict[str, Any]) -> str:
    """What the command prints."""
    return f"{head(document)}; 95 % intervals over games\n\n{rows(document)}\n\n{noise(document)}"


def section(name: str, document: dict[str, Any], picture: bool) -> str:
    """A section of the page; a record with a name of its own (`--name`) is headed by that, too."""
    main = [r["estimator"] for r in document["estimators"] if r["estimator"] in ENTRIES]
    others = [r["estimator"] for r in document["estimators"] if r["estimator"] not in ENTRIES]
    minutes = max(1, round(document["processor_seconds"] / 60))
    own = name != record_name(document)
    parts = [
        f"### {title(document)}{f': {name}' if own else ''}",
        f"{head(document)}; {minutes} minute{'s' if minutes > 1 else ''} of processor time:",
        f"```sh\n{document['command']}{f' --name {name}' if own else ''} --out docs\n```",
        rows(document, main),
        f"![{name}](lab/{name}.svg)" if picture else "",
    ]
    if others:
        parts += ["Settings in question, on the same games:", rows(document, others)]
    parts.append(noise(document))
    return "\n\n".join(part for part in parts if part)


def record_name(document: dict[str, Any]) -> str:
    """The name of an engine's record where none is given: by engine and policy."""
    policy = document["policy"]["name"]
    stem = document["engine"] if policy == "expert" else f"{document['engine']}-{policy}"
    return re.sub(r"[^\w.-]+", "-", stem)


def title(document: dict[str, Any]) -> str:
    """The heading of a section."""
    policy = document["policy"]
    played = "a noisy expert" if "noise" in policy else f"the model `{policy['name']}`"
    return f"{document['engine'].capitalize()}, {played}"


INTRODUCTION = """A policy plays groups of rollouts. Every state it comes through is copied, with what the agent
remembers and what the policy keeps, and the copies are played on to their end. The mean return of these continuations
is the value of the state, and reward plus discounted value of the next state less value of this one is the true
advantage of the step (moves are certain in these engines). The step limit ends the task. *Cosine* is between an
estimator's advantages and the true ones over the steps of all games, and *squared error* is what is left of the true
advantages after the best constant factor (one minus the cosine squared; 1 is as good as silence). Both are corrected
for the noise of the continuations, which would make the truth look longer than it is (`hgpo/lab/corrected.py`). In
brackets: 95 % intervals, games drawn again with replacement."""
