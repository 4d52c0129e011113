"""What the agent remembers of its episode: the last K (observation, action) pairs by default."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from ..envs.prompt import Remembered
from ..errors import BadSetting


class Memory(Protocol):
    """What a prompt may say about the past. Implement these three methods to plug in your own."""

    def reset(self) -> None:
        """Forget everything; an episode starts."""
        ...

    def add(self, observation: str, action: str) -> None:
        """Take in one finished step."""
        ...

    def recall(self) -> Sequence[Remembered]:
        """What the next prompt shows, oldest first."""
        ...


class WindowMemory:
    """The last `length` pairs, word for word. A length of 0 remembers nothing.

    >>> memory = WindowMemory(1)
    >>> memory.add("a door", "open door"); memory.add("a room", "enter")
    >>> [(m.step, m.action) for m in memory.recall()]
    [(1, 'enter')]
    """

    def __init__(self, length: int) -> None:
        if length < 0:
            raise BadSetting(
                f"history_length is {length}; expected 0 or more remembered (observation, action) pairs."
            )
        self.length = length
        self.reset()

    def reset(self) -> None:
        self._count = 0
        self._window: deque[Remembered] = deque(maxlen=self.length)

    def add(self, observation: str, action: str) -> None:
        self._window.append(Remembered(self._count, observation, action))
        self._count += 1

    def recall(self) -> Sequence[Remembered]:
        return tuple(self._window)


MemoryFactory = Callable[[], Memory]
