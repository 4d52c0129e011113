"""ALFWorld's official games: from the official download or one compact file, in the native engine.

    env = make("alfworld")     # data/alfworld/games.jsonl.xz, which `hgpo data alfworld` makes; or data=PATH
    obs = env.reset(env.tasks("in-domain")[0])

Task ids read `<split folder>/<name>/<trial>`, for example
`valid_seen/pick_and_place_simple-Book-None-SideTable-329/trial_T20190908_050633_745514`.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import BadSetting, UnknownName, UnknownTask
from ..contract import TextEnv
from ..places import ALFWORLD_FILE, alfworld_data
from .alfworld_games import FOLDERS, Games, check_rules, open_games
from .episode import HouseEnv
from .house import TASK_TYPES, House
from .problem import parse_problem

SPLITS = {
    "train": "train",
    "in-domain": "valid_seen",
    "out-of-domain": "valid_unseen",
    "valid_train": "valid_train",
}
"""Our names of the splits -> the official folders; a folder's own name works too."""

VALIDATION = "validation"
"""The split of the training games that `validation_rooms` holds back."""


def alfworld(
    data: str | os.PathLike[str] | None = None,
    *,
    engine: str = "native",
    task_types: Iterable[str] | None = None,
    validation_rooms: int = 0,
    max_steps: int = 50,
    win_reward: float = 10.0,
    step_timeout: float = 60.0,
    python: str | None = None,
) -> TextEnv:
    """ALFWorld's official games in the native engine, or in the official one.

    Args:
        data: the compact file, or a folder of the official download; see `places.alfworld_data` when left out.
        engine: `native`, or `official` for the original packages in a supervised worker process.
        task_types: keep only these of the six task types.
        validation_rooms: so many of the training rooms are held back; their games are the split `validation`.
        max_steps: steps after which an episode is truncated.
        win_reward: reward of the step that solves the task.
        step_timeout: seconds the official engine may take for one step.
        python: interpreter that has the official packages, where it is not this one.
    """
    if engine == "native":
        return AlfworldEnv(
            data,
            task_types=task_types,
            validation_rooms=validation_rooms,
            max_steps=max_steps,
            win_reward=win_reward,
        )
    if engine == "official":
        from .alfworld_official import supervised

        return supervised(
            data,
            task_types=task_types,
            validation_rooms=validation_rooms,
            max_steps=max_steps,
            win_reward=win_reward,
            step_timeout=step_timeout,
            python=python,
        )
    raise UnknownName("ALFWorld engine", engine, ["native", "official"])


class GameSet:
    """The games of one source by split and task id, optionally of some task types only.

    With `validation_rooms` so many rooms of the training games are held back: a policy can be chosen by rooms it was
    not trained in, and the official panels stay what they are, tests.
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | None,
        task_types: Iterable[str] | None = None,
        validation_rooms: int = 0,
    ) -> None:
        if data is None:
            data = alfworld_data()
            if data is None:
                raise BadSetting(
                    f"There are no ALFWorld games: neither {ALFWORLD_FILE} nor a download where ALFWORLD_DATA says. "
                    "`hgpo data` says where to get them; data=PATH (env.data=PATH of a run) names another place."
                )
        self.games: Games = open_games(Path(data).expanduser())
        self.task_types = None if task_types is None else tuple(task_types)
        for kind in self.task_types or ():
            if kind not in TASK_TYPES:
                raise UnknownName("task type", kind, TASK_TYPES)
        if self.task_types == ():
            raise BadSetting(f"task_types is empty; expected some of {', '.join(TASK_TYPES)}.")
        if validation_rooms < 0:
            raise BadSetting(f"validation_rooms is {validation_rooms}; expected 0 or more.")
        self.validation_rooms = validation_rooms
        self._tasks: dict[str, list[str]] = {}

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that have games."""
        folders = self.games.folders()
        names = tuple(name for name, folder in SPLITS.items() if folder in folders)
        return (*names, VALIDATION) if self.validation_rooms and "train" in folders else names

    def tasks(self, split: str) -> list[str]:
        """The sorted task ids of a split, by our name or the official folder's."""
        if split in ("train", VALIDATION) and self.validation_rooms:
            ids = self._of_folder("train")
            rooms = held_back({room_of(task) for task in self.games.tasks("train")}, self.validation_rooms)
            return [task for task in ids if (room_of(task) in rooms) == (split == VALIDATION)]
        folder = SPLITS.get(split, split)
        if folder not in FOLDERS:
            raise UnknownName("split", split, {*SPLITS, *FOLDERS, *self.splits})
        return list(self._of_folder(folder))

    def _of_folder(self, folder: str) -> list[str]:
        if folder not in self._tasks:
            ids = self.games.tasks(folder)
            if self.task_types is not None:
                ids = [task for task in ids if task.split("/")[1].split("-")[0] in self.task_types]
            self._tasks[folder] = ids
        return self._tasks[folder]

    def check(self, task: str) -> None:
        """Refuse a task id that is not among the games."""
        if not isinstance(task, str) or not self.games.has(task):
            raise UnknownTask(task, str(self.games.path), self.splits, self._nearest(str(task)))

    def _nearest(self, task: str) -> str | None:
        """A game that was probably meant: the same name or trial, or else a name much like it."""
        folder, _, rest = task.partition("/")
        if folder not in self.games.folders():
            return None
        name, _, trial = rest.partition("/")
        ids = self.tasks(folder)
        parts = [other.split("/") for other in ids]
        like = [other for other, part in zip(ids, parts) if part[1] == name or part[2] == trial]
        if not like:
            # Names are compared, not whole ids: a thousand of them, where ids would take half a minute.
            names = difflib.get_close_matches(name, {part[1] for part in parts}, n=1, cutoff=0.7)
            like = [other for other, part in zip(ids, parts) if part[1] in names]
        near = difflib.get_close_matches(task, like, n=1, cutoff=0.5)
        return near[0] if near else None


def room_of(task: str) -> int:
    """The number of the room that a game plays in, the last part of its name: 329 is a bedroom."""
    number = task.split("/")[1].rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def held_back(rooms: Iterable[int], count: int) -> frozenset[int]:
    """`count` of the rooms, the same for the same rooms: kinds (number // 100) take turns, digests decide within one.

    Raises:
        BadSetting: no room would be left to train in.
    """
    kinds: dict[int, list[int]] = {}
    for room in sorted(rooms, key=lambda room: hashlib.sha256(f"room {room}".encode()).digest()):
        kinds.setdefault(room // 100, []).append(room)
    in_turn = [
        room
        for turn in itertools.zip_longest(*(kinds[kind] for kind in sorted(kinds)))
        for room in turn
        if room is not None
    ]
    if count >= len(in_turn):
        raise BadSetting(
            f"validation_rooms is {count}, and the training games play in {len(in_turn)} rooms; expected fewer, so "
            "that some are left to train in."
        )
    return frozenset(in_turn[:count])


class AlfworldEnv(HouseEnv):
    """Official games in the native engine: the same texts, admissible commands and wins."""

    world_version: int = 1
    """Raised when the same actions in the same task get other answers; part of every panel's digest."""

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        task_types: Iterable[str] | None = None,
        validation_rooms: int = 0,
        max_steps: int = 50,
        win_reward: float = 10.0,
    ) -> None:
        super().__init__(max_steps=max_steps, win_reward=win_reward)
        self.set = GameSet(data, task_types, validation_rooms)

    @property
    def splits(self) -> Sequence[str]:
        """`train`, `in-domain` (valid_seen), `out-of-domain` (valid_unseen), `valid_train`: those present.

        And `validation`, where rooms are held back.
        """
        return self.set.splits

    def tasks(self, split: str) -> Sequence[str]:
        """The sorted task ids of a split."""
        return self.set.tasks(split)

    def house(self, task: str) -> House:
        """The house of a game; kept while any environment of the process uses it or used it recently."""
        games = self.set.games
        house = games.houses.get(task)
        if house is None:
            self.set.check(task)
            game = games.game(task)
            source = f"{games.path} ({task})"
            check_rules(game, source)
            house = parse_problem(game.problem, game.task, source)
            games.houses.put(task, house)
        return house

    def walkthrough(self, task: str) -> list[str]:
        """The commands that the game's authors stored as a solution."""
        self.set.check(task)
        return list(self.set.games.game(task).walkthrough)
