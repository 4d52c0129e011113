"""What the agent remembers of its episode: the last K (observation, action) pairs, all of them, or what an object of
the user's recalls."""

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


class FullMemory(WindowMemory):
    """Everything since the start of the episode; a prompt that grows too long gives up the oldest of it."""

    def __init__(self) -> None:
        super().__init__(0)

    def reset(self) -> None:
        self._count = 0
        self._window = deque()


MemoryFactory = Callable[[], Memory]
METHODS = ("reset", "add", "recall")


def recalled(memory: Memory) -> tuple[Remembered, ...]:
    """What `memory` recalls; a user's own may be wrong about it."""
    entries = tuple(memory.recall())
    for entry in entries:
        if not isinstance(entry, Remembered):
            raise BadSetting(
                f"The memory {type(memory).__name__} recalls a {type(entry).__name__}; expected entries of "
                "hgpo.play.Remembered(step, observation, action)."
            )
    return entries


def memory_factory(name: str, length: int, own: Callable[[str], MemoryFactory]) -> MemoryFactory:
    """What makes the memory called `name`.

    Args:
        name: `window` (the last `length` pairs), `full`, or another that `own` finds.
        length: K.
        own: makes memories by other names: the environment's own, or one at an address.
    """
    if name == "window":
        return lambda: WindowMemory(length)
    if name == "full":
        return FullMemory
    return own(name)
