"""Both engines play live, side by side: every text, every admissible command, every win must agree.

Runs wherever hgpo[alfworld] is installed (`make test-slow`). Generated houses are exported as official games, so
that no data is needed; where the official games are at hand, a sample of all their splits is played too.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs import make
from hgpo.envs.household.env import HouseholdEnv
from hgpo.envs.household.export import problem_text, write_game
from hgpo.envs.household.house import TASK_TYPES
from hgpo.envs.household.problem import parse_problem
from hgpo.errors import MissingExtra

INSTALLED = importlib.util.find_spec("alfworld") is not None
WEIGHTS = {
    "go": 2.0,
    "open": 3.0,
    "take": 3.0,
    "heat": 3.0,
    "cool": 3.0,
    "clean": 3.0,
    "slice": 5.0,
    "help": 0.2,
}


def spoil(command: str, rng: random.Random) -> str:
    """A command that looks right and mostly is not."""
    words = command.split()
    rng.shuffle(words)
    return rng.choice(
        [
            f"  {command}\t\n",
            command.upper(),
            command.replace(" ", "  ", 1),
            command + " please",
            command.replace("1", "7"),
            command.replace("move ", "put ").replace(" to ", " in/on "),
            " ".join(words),
            "",
            "xyzzy",
        ]
    )


def play_both(native: Any, official: Any, task: str, seed: int, steps: int = 25) -> int:
    """Random and malformed commands, mixed with the stored solution; returns the number of wins seen."""
    rng = random.Random(f"{task} {seed}")
    plan = list(native.walkthrough(task)) if rng.random() < 0.6 else []
    ours, theirs = native.reset(task), official.reset(task)
    assert ours == theirs, task
    commands: list[str] = []
    seen, wins = set(ours.admissible), 0
    for _ in range(steps):
        draw = rng.random()
        if plan and draw < 0.7:
            command = plan.pop(0)
        elif draw < 0.8:
            command = spoil(rng.choice(ours.admissible), rng)
        elif draw < 0.85:
            command = rng.choice(sorted(seen))
        else:
            weights = [WEIGHTS.get(c.split()[0], 1.0) / (8 if c[:2] == "go" else 1) for c in ours.admissible]
            command = rng.choices(ours.admissible, weights)[0]
        commands.append(command)
        ours, theirs = native.step(command), official.step(command)
        assert ours == theirs, (task, commands)
        seen.update(ours.admissible)
        wins += ours.success
    return wins


@pytest.mark.parametrize("size", ["tiny", "small", "medium", "alfworld"])
def test_exported_houses_read_back_the_same(size: str) -> None:
    env = HouseholdEnv(size=size)
    for task in [*env.tasks("train")[:60], *env.tasks("out-of-domain")[:30]]:
        house = env.house(task)
        again = parse_problem(problem_text(house), house.task, task)
        for name in type(house).__dataclass_fields__:
            if name not in ("fixed_commands", "fits"):
                assert getattr(again, name) == getattr(house, name), (task, name)
        assert [set(fits) for fits in again.fits] == [set(fits) for fits in house.fits]


@pytest.mark.skipif(INSTALLED, reason="the official engine is installed")
def test_without_the_packages_the_extra_is_named(shared: Path) -> None:
    with pytest.raises(MissingExtra, match=r"pip install .*\[alfworld\]"):
        make("alfworld", data=shared / "alfworld" / "games_compact.jsonl.xz", engine="official")


@pytest.mark.alfworld
@pytest.mark.timeout(900)
def test_generated_houses_play_the_same_in_the_official_engine(tmp_path: Path) -> None:
    packaged = Path(pytest.importorskip("alfworld").__file__).parent / "data"
    domain, grammar = (packaged / "alfred.pddl").read_text(), (packaged / "alfred.twl2").read_text()
    for size, count in (("small", 12), ("medium", 6)):
        env = HouseholdEnv(size=size)
        for number, task in enumerate(env.tasks("out-of-domain")[:count]):
            name = f"{TASK_TYPES[number % 6]}-generated-{size}-{number:03d}"
            folder = tmp_path / "json_2.1.1" / "valid_unseen" / name / "trial_0"
            write_game(env.house(task), folder, domain, grammar, env.walkthrough(task))
    native, official = make("alfworld", data=tmp_path), make("alfworld", data=tmp_path, engine="official")
    assert native.tasks("out-of-domain") == official.tasks("out-of-domain")
    assert len(native.tasks("out-of-domain")) == 18
    wins = sum(play_both(native, official, task, 0) for task in native.tasks("out-of-domain"))
    official.close()
    assert wins > 0


@pytest.mark.alfworld
@pytest.mark.timeout(1800)
def test_official_games_play_the_same_in_both_engines(shared: Path) -> None:
    pytest.importorskip("alfworld")
    data = shared / "alfworld" / "games_compact.jsonl.xz"
    native: Any = make("alfworld", data=data)
    official: Any = make("alfworld", data=data, engine="official")
    rng = random.Random("a sample of all splits")
    wins = 0
    for split in native.splits:
        for kind in TASK_TYPES:
            tasks = [task for task in native.tasks(split) if task.split("/")[1].startswith(kind)]
            wins += play_both(native, official, rng.choice(tasks), 1)
    assert official.incidents.restarts == 0
    official.close()
    assert wins > 0
