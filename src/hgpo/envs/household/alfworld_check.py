"""Whether a set of games is the official one, and whether it can be played: counts, digest, walkthroughs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import HgpoError
from ...progress import Progress
from .alfworld import AlfworldEnv
from .alfworld_games import FOLDERS
from .house import TASK_TYPES

OFFICIAL_GAMES = {"train": 3553, "valid_seen": 140, "valid_unseen": 134, "valid_train": 200}
"""How many games ALFWorld has in each split."""
OFFICIAL_DIGEST = "b8bfa6d6ba7f6864866e3bee17d25a016fb7e3d6b90e4d14053521114e6e112d"
"""`games_digest` of ALFWorld's release 0.4.0 (json_2.1.2), which versions 0.4.0 to 0.4.2 download."""


@dataclass(frozen=True)
class GamesCheck:
    """What a set of games is."""

    games: Mapping[str, Mapping[str, int]]
    """Split folder -> task type -> how many games."""
    digest: str
    """Of every game's id, task sentence, walkthrough and problem, in order."""
    lost: tuple[str, ...]
    """Games whose stored walkthrough does not win in the native engine, or that cannot be read; with the reason."""

    @property
    def total(self) -> int:
        """How many games."""
        return sum(sum(kinds.values()) for kinds in self.games.values())

    @property
    def official(self) -> bool:
        """Whether these are ALFWorld's games, all of them and nothing else."""
        return self.digest == OFFICIAL_DIGEST

    def differences(self) -> Iterator[str]:
        """In what the set differs from the official one, in words; nothing where it is that."""
        if self.official:
            return
        for folder in FOLDERS:
            present, expected = sum(self.games.get(folder, {}).values()), OFFICIAL_GAMES[folder]
            if present != expected:
                yield f"{folder} has {present:,} games, the official split {expected:,}"
        if self.total == sum(OFFICIAL_GAMES.values()):
            yield "the texts of some games are not the official ones"


def check_games(data: Path) -> GamesCheck:
    """Read every game of a source, and play its stored walkthrough in the native engine.

    Raises:
        BadFile: the source cannot be opened.
    """
    env = AlfworldEnv(data, max_steps=10_000)
    games = env.set.games
    listed = {folder: games.tasks(folder) for folder in games.folders()}
    state = hashlib.sha256()
    lost = []
    with Progress("checking games", total=sum(map(len, listed.values()))) as progress:
        for folder in sorted(listed):
            for task in listed[folder]:
                try:
                    game = games.game(task)
                    content = [task, game.task, list(game.walkthrough), game.problem]
                    state.update(json.dumps(content).encode() + b"\n")
                    if not _wins(env, task, game.walkthrough):
                        lost.append(f"{task}: its walkthrough does not solve it")
                except HgpoError as error:
                    lost.append(f"{task}: {error}")
                progress.add()
    kinds = {
        folder: Counter(task.split("/")[1].split("-")[0] for task in tasks)
        for folder, tasks in listed.items()
    }
    known = {
        folder: {
            kind: counts[kind] for kind in (*TASK_TYPES, *sorted({*counts} - {*TASK_TYPES})) if counts[kind]
        }
        for folder, counts in kinds.items()
    }
    return GamesCheck(known, state.hexdigest(), tuple(lost))


def _wins(env: AlfworldEnv, task: str, walkthrough: tuple[str, ...]) -> bool:
    """Whether the commands solve the task, no sooner than with the last one."""
    env.reset(task)
    solved = [env.step(command).success for command in walkthrough]
    return solved == [False] * (len(solved) - 1) + [True]
