"""Memory budget of the states of a backend, and the guard of files that a snapshot still needs."""

from __future__ import annotations

FRAME_SHARE = 0.65
"""Share of the memory for frames: merging needs room as well, and so does RocksDB."""
BLOCK_CACHE_SHARE = 0.2
"""Share of the memory for RocksDB, once there is a database."""


class MemoryBudget:
    """Budget to which the states of one backend report their memory, in any thread."""

    def __init__(self, memory: int) -> None:
        self._limit = int(memory * FRAME_SHARE)
        self._used_bytes: dict[object, int] = {}

    def report_usage(self, who: object, used_bytes: int) -> bool:
        """Record the memory that a state takes, and return whether this state must make room.

        A state must make room if the total is over the limit and the state takes at least an equal
        share of the limit: once no such state is left, the total is within the limit.
        """
        self._used_bytes[who] = used_bytes
        others = list(self._used_bytes.values())
        return sum(others) > self._limit and used_bytes >= self._limit // len(others)

    def release(self, who: object) -> None:
        """Remove a closed state from the budget."""
        self._used_bytes.pop(who, None)


class SnapshotGuard:
    """Permissions to change files while a frozen state that needs them is being stored."""

    def __init__(self) -> None:
        self.may_write = True
        """Whether the database may be changed: no frozen state still has to copy it."""
        self.may_discard = True
        """Whether files may be removed."""

    def forbid_changes(self) -> None:
        """Forbid all changes: a state was frozen."""
        self.may_write = self.may_discard = False

    def allow_writes(self) -> None:
        """Allow writes: the database was copied."""
        self.may_write = True

    def allow_changes(self) -> None:
        """Allow all changes: the frozen state was stored or released."""
        self.may_write = self.may_discard = True
