"""The card of a model that a run or a warm start wrote: data, base, settings, results, how to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...models.card import code, compose, licence_of, lineage, shown_name, table
from ...version import __version__
from .description import Description

PAPER = "https://arxiv.org/abs/2602.22817"
AGENT = (("agent", "history_length"), ("agent", "prompt"), ("agent", "max_steps"))
TRAINING = (
    ("estimator", "name"),
    *AGENT,
    ("rollout", "tasks"),
    ("rollout", "group_size"),
    ("rollout", "temperature"),
    ("update", "lr"),
    ("update", "loss"),
    ("update", "kl_coef"),
    ("model", "lora_rank"),
)
"""The settings that a reader looks for first; all of them are in `hgpo.json`."""
CLONING = (*AGENT, ("warm", "epochs"), ("warm", "lr"))


def run_card(name: str, description: Description, rows: Sequence[Mapping[str, Any]], iteration: int) -> str:
    """The card of a run's policy.

    Args:
        name: of the run.
        description: what the run is.
        rows: the lines of `metrics.jsonl`.
        iteration: after how many iterations the policy was written.
    """
    config = description.config
    estimator = code(description.estimator.get("name", ""))
    about = (
        f"{_agent(config)}, trained by reinforcement learning with the estimator {estimator}: {iteration} iteration"
        f"{'' if iteration == 1 else 's'}."
    )
    return _card(
        name,
        config,
        {
            "": about,
            "Results": _results(description, rows, iteration),
            "Data": _data(config, description),
        },
    )


def start_card(name: str, config: Mapping[str, Any], episodes: int, steps: int, kind: str) -> str:
    """The card of a model that demonstrations were cloned into.

    Args:
        name: of the model.
        config: all settings.
        episodes: how many were cloned, with so many `steps`.
        steps: see `episodes`.
        kind: where they come from, in words.
    """
    about = f"{_agent(config)}, made by cloning demonstrations: a start for reinforcement learning."
    cloned = f"{episodes} episodes with {steps} steps ({code(kind)}). "
    results = "Not evaluated. `hgpo eval FOLDER` plays it."
    sections = {"": about, "Results": results, "Data": cloned + _world(config)}
    return _card(name, config, sections, CLONING)


def _agent(config: Mapping[str, Any]) -> str:
    return f"A language agent for the environment {code(_part(config, 'env').get('name', ''))}"


def _card(
    name: str,
    config: Mapping[str, Any],
    sections: Mapping[str, str],
    shown: Sequence[tuple[str, str]] = TRAINING,
) -> str:
    path = str(_part(config, "model").get("path", ""))
    licence = "" if path == "tiny" else licence_of(path)
    rest = {
        "Base model": _base(path, licence),
        "Settings": _settings(config, shown),
        "Use": _use(config),
        "Method": f"Hierarchy-of-Groups Policy Optimization, ICLR 2026, {PAPER}. Written by hgpo {__version__}.",
    }
    return compose(name, {**sections, **rest}, licence=licence, base=shown_name(path))


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}


def _results(description: Description, rows: Sequence[Mapping[str, Any]], iteration: int) -> str:
    cells = []
    for split, panel in description.panels.items():
        key = f"eval/{split}/success"
        values = {
            row["iteration"]: row[key]
            for row in rows
            if isinstance(row.get(key), (int, float)) and row["iteration"] <= iteration
        }
        if values:
            first, last = min(values), max(values)
            gain = 100 * (values[last] - values[first])
            cells.append(
                [
                    code(split),
                    str(panel.tasks),
                    f"{100 * values[first]:.1f}",
                    f"{100 * values[last]:.1f} (iteration {last})",
                    f"{gain:+.1f}",
                    code(panel.digest),
                ]
            )
    if not cells:
        return (
            "It was not evaluated during training. `hgpo eval FOLDER` plays it on a panel of held-out tasks."
        )
    evaluation = _part(description.config, "eval")
    head = ("split", "tasks", "success before, %", "after, %", "gain, points", "digest of the panel")
    temperature, seed = code(evaluation.get("temperature", "")), code(evaluation.get("seed", ""))
    return (
        f"{table(head, cells)}\n\nHeld-out tasks, each played once, temperature {temperature}, one sampling seed "
        f"({seed}). One run; runs with other seeds differ. Results are comparable where the digest of the panel is the "
        "same."
    )


def _data(config: Mapping[str, Any], description: Description) -> str:
    rollout, warm = _part(config, "rollout"), _part(config, "warm")
    tasks = (
        f"{description.training_tasks} training tasks (digest {code(description.training_digest)}); every iteration "
        f"{code(rollout.get('group_size', ''))} episodes of each of {code(rollout.get('tasks', ''))} of them. "
    )
    cloned = warm.get("episodes") or 0
    start = f"Before that, {code(cloned)} demonstrations were cloned. " if cloned else ""
    return tasks + start + _world(config)


def _world(config: Mapping[str, Any]) -> str:
    env = _part(config, "env")
    settings = {
        key: value for key, value in _part(env, "settings").items() if key not in ("data", "python", "store")
    }
    said = ", ".join(f"{code(f'{key}={value}')}" for key, value in sorted(settings.items()))
    return f"Environment {code(env.get('name', ''))}" + (f" with {said}." if said else ".")


def _base(path: str, licence: str) -> str:
    if path == "tiny":
        return "None: a small model made on the spot, from random weights. It knows the words of its environment only."
    names = " < ".join(code(name) for name in lineage(path))
    if licence:
        return f"{names}. Its licence, {code(licence)}, holds for this model too."
    return f"{names}. Its licence was not found beside it; whatever it is holds for this model too."


def _settings(config: Mapping[str, Any], shown: Sequence[tuple[str, str]]) -> str:
    rows = [
        [code(f"{section}.{name}"), code(_part(config, section)[name])]
        for section, name in shown
        if name in _part(config, section)
    ]
    rows.append([code("seed"), code(config.get("seed", ""))])
    return f"{table(('setting', 'value'), rows)}\n\nAll of them are in `hgpo.json`."


def _use(config: Mapping[str, Any]) -> str:
    agent = _part(config, "agent")
    return (
        "```\nhgpo eval FOLDER        # this folder\n```\n\n"
        "or, as any model of this format:\n\n"
        "```python\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        'model = AutoModelForCausalLM.from_pretrained("FOLDER")\n'
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")\n'
        "```\n\n"
        f"It was trained on prompts of the style {code(agent.get('prompt', ''))} that show the last "
        f"{code(agent.get('history_length', ''))} steps; `hgpo eval` writes them. It is made for this environment, and "
        "says nothing useful elsewhere."
    )
