"""A subtask's asynchronous snapshots: state is frozen at a barrier and stored in the background.

Freezing takes constant time. A thread then writes the frozen states while the subtask resumes. Only
one snapshot is written at any time: the next freeze waits for the write before it, even if the
checkpoint of that write has been abandoned.
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
    """Freezes and stores the states of one subtask, and reports the result."""

    id: SubtaskId
    parts: tuple[str, ...]
    """The parts that the subtask runs, for messages."""
    states: Mapping[str, Sequence[StepState]]
    store: SnapshotStore
    bench: Bench
    tell: Callable[[ToCoordinator], None]
    _storing: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait until the previous snapshot is written or has failed."""
        if self._storing is not None:
            await asyncio.wait([self._storing])
            self._storing = None

    def freeze(self) -> dict[str, tuple[Frozen, ...]]:
        """Freeze all states."""
        return {
            step: tuple(state.freeze() for state in states) for step, states in self.states.items()
        }

    async def stored(self) -> dict[str, tuple[Document, ...]]:
        """Freeze and store all states, and return their documents. Raises SnapshotError."""
        frozen = self.freeze()
        return await self.bench.blocking(lambda: self._stored(frozen))

    def keep(
        self, number: int, frozen: Mapping[str, tuple[Frozen, ...]], snapshot: Snapshot
    ) -> None:
        """Store the frozen states in the background, add them to the snapshot, and report it."""
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
        """Store all states; if one cannot be stored, release the others."""
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
        """Cancel the snapshot that is being written, and wait for its thread."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)
