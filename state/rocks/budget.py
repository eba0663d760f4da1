"""Memory budget of the states of a backend, and the guard of files that a snapshot still needs."""

from __future__ import annotations

FOR_FRAMES = 0.65
"""Share of the memory for frames: merging needs room as well, and so does RocksDB."""
FOR_BLOCKS = 0.2
"""Share of the memory for RocksDB, once there is a database."""


class Budget:
    """Budget to which the states of one backend report their memory, in any thread."""

    def __init__(self, memory: int) -> None:
        self._limit = int(memory * FOR_FRAMES)
        self._taken: dict[object, int] = {}

    def tell(self, who: object, taken: int) -> bool:
        """Record the memory that a state takes, and return whether this state must make room.

        A state must make room if the total is over the limit and the state takes at least an equal
        share of the limit: once no such state is left, the total is within the limit.
        """
        self._taken[who] = taken
        others = list(self._taken.values())
        return sum(others) > self._limit and taken >= self._limit // len(others)

    def leave(self, who: object) -> None:
        """Remove a closed state from the budget."""
        self._taken.pop(who, None)


class Gate:
    """Permissions to change files while a frozen state that needs them is being stored."""

    def __init__(self) -> None:
        self.may_write = True
        """Whether the database may be changed: no frozen state still has to copy it."""
        self.may_discard = True
        """Whether files may be removed."""

    def shut(self) -> None:
        """Forbid all changes: a state was frozen."""
        self.may_write = self.may_discard = False

    def cut(self) -> None:
        """Allow writes: the database was copied."""
        self.may_write = True

    def open(self) -> None:
        """Allow all changes: the frozen state was stored or released."""
        self.may_write = self.may_discard = True
