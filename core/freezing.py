"""A subtask's part in checkpoints: what it is at a barrier, stored while it goes on.

Freezing takes constant time. What was frozen is then written in a thread, and until that is done no
later generation is frozen: only one is being written at any time, also when its checkpoint has been
given up meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.core.bench import Bench
from headrace.core.messages import (
    Abandoned,
    Acknowledged,
    Failed,
    Snapshot,
    SubtaskId,
    ToCoordinator,
)
from headrace.core.snapshots import SnapshotError, SnapshotStore
from headrace.core.state import Document, Frozen, StepState
from headrace.core.telling import failure


@dataclass(slots=True)
class Freezer:
    """Freezes the states of one subtask, and tells when they are stored."""

    id: SubtaskId
    parts: tuple[str, ...]
    """What the subtask does, for messages."""
    states: Mapping[str, Sequence[StepState]]
    store: SnapshotStore
    bench: Bench
    tell: Callable[[ToCoordinator], None]
    _storing: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait until what was frozen before is written, or given up."""
        if self._storing is not None:
            await asyncio.wait([self._storing])
            self._storing = None

    def freeze(self) -> dict[str, tuple[Frozen, ...]]:
        """All states as they are now."""
        return {
            step: tuple(state.freeze() for state in states) for step, states in self.states.items()
        }

    async def stored(self) -> dict[str, tuple[Document, ...]]:
        """All states as they are now, in the store. Raises SnapshotError."""
        frozen = self.freeze()
        return await self.bench.blocking(lambda: self._stored(frozen))

    def keep(
        self, number: int, frozen: Mapping[str, tuple[Frozen, ...]], snapshot: Snapshot
    ) -> None:
        """Store what was frozen, which with the rest is the snapshot, and tell of it."""
        self._storing = asyncio.create_task(self._keep(number, frozen, snapshot))

    async def _keep(
        self, number: int, frozen: Mapping[str, tuple[Frozen, ...]], snapshot: Snapshot
    ) -> None:
        try:
            states = await self.bench.blocking(lambda: self._stored(frozen))
        except SnapshotError as error:
            self.tell(Abandoned(self.id, number, error.message, snapshot.handle))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.tell(Failed(self.id, failure(error, *self.parts)))
        else:
            self.tell(Acknowledged(self.id, number, replace(snapshot, states=states)))

    def _stored(self, frozen: Mapping[str, tuple[Frozen, ...]]) -> dict[str, tuple[Document, ...]]:
        """All of them stored; when one cannot be, the others are let go of."""
        left = [(step, each) for step, states in frozen.items() for each in states]
        documents: dict[str, list[Document]] = {step: [] for step in frozen}
        try:
            while left:
                step, each = left.pop(0)
                documents[step].append(each.stored(self.store))
        finally:
            for _, each in left:
                each.release()
        return {step: tuple(stored) for step, stored in documents.items()}

    async def close(self) -> None:
        """Wait for the thread that is writing."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)
