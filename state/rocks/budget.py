"""How much memory states may take together, and who is to make room."""

from __future__ import annotations

FOR_FRAMES = 0.65
"""The part of the memory that is for frames: merging needs room as well, and so does RocksDB."""
FOR_BLOCKS = 0.2
"""The part that RocksDB has, once there is one."""


class Budget:
    """The states of one backend tell it what they take; they may do so in several threads."""

    def __init__(self, memory: int) -> None:
        self._limit = int(memory * FOR_FRAMES)
        self._taken: dict[object, int] = {}

    def tell(self, who: object, taken: int) -> bool:
        """What a state takes now; says whether it is to make room.

        That is for those who take as much as is everybody's share: once none of them does, the
        limit is kept.
        """
        self._taken[who] = taken
        others = list(self._taken.values())
        return sum(others) > self._limit and taken >= self._limit // len(others)

    def leave(self, who: object) -> None:
        """A state that is gone takes nothing."""
        self._taken.pop(who, None)


class Gate:
    """Whether what is frozen is still being stored, so that it must stay as it is on disk."""

    def __init__(self) -> None:
        self.may_write = True
        """Whether the database may be changed: it is not waited for, nor has to be cut."""
        self.may_discard = True
        """Whether files may be removed."""

    def shut(self) -> None:
        """A generation is frozen."""
        self.may_write = self.may_discard = False

    def cut(self) -> None:
        """Of the database there is a copy."""
        self.may_write = True

    def open(self) -> None:
        """The generation is stored, or given up."""
        self.may_write = self.may_discard = True
