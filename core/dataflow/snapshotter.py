"""A subtask's asynchronous snapshots: state is frozen at a barrier and stored in the background.

Freezing takes constant time. A thread then writes the frozen states while the subtask resumes. Only
one snapshot is written at any time: the next freeze waits for the write before it, even if the
checkpoint of that write has been abandoned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headrace.core.api.failures import build_failure
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.snapshots import SnapshotError, SnapshotStore
from headrace.core.api.splits import SubtaskId
from headrace.core.api.state import Document, FrozenState, StepState
from headrace.core.coordination.messages import (
    CoordinatorEvent,
    Snapshot,
    SnapshotAcknowledged,
    SnapshotDeclined,
    SubtaskFailed,
)
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class Snapshotter:
    """Freezes and stores the states of one subtask, and reports the result."""

    id: SubtaskId
    parts: tuple[str, ...]
    """The parts that the subtask runs, for messages."""
    states: Mapping[str, Sequence[StepState]]
    store: SnapshotStore
    kernel_executor: KernelExecutor
    send: Callable[[CoordinatorEvent], None]
    _storing_task: asyncio.Task[None] | None = None

    async def wait_for_previous(self) -> None:
        """Wait until the previous snapshot is written or has failed."""
        if self._storing_task is not None:
            await asyncio.wait([self._storing_task])
            self._storing_task = None

    def freeze_states(self) -> dict[str, tuple[FrozenState, ...]]:
        """Freeze all states."""
        return {
            step: tuple(state.freeze() for state in states) for step, states in self.states.items()
        }

    async def store_states(self) -> dict[str, tuple[Document, ...]]:
        """Freeze and store all states, and return their documents. Raises SnapshotError."""
        frozen = self.freeze_states()
        return await self.kernel_executor.run_blocking(lambda: self._store_all(frozen))

    def start_storing(
        self, number: int, frozen: Mapping[str, tuple[FrozenState, ...]], snapshot: Snapshot
    ) -> None:
        """Store the frozen states in the background, add them to the snapshot, and report it."""
        self._storing_task = asyncio.create_task(self._store_and_report(number, frozen, snapshot))

    async def _store_and_report(
        self, number: int, frozen: Mapping[str, tuple[FrozenState, ...]], snapshot: Snapshot
    ) -> None:
        try:
            states = await self.kernel_executor.run_blocking(lambda: self._store_all(frozen))
        except SnapshotError as error:
            self.send(SnapshotDeclined(self.id, number, error.message, snapshot.handle))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.send(SubtaskFailed(self.id, build_failure(error, *self.parts)))
        else:
            self.send(SnapshotAcknowledged(self.id, number, replace(snapshot, states=states)))

    def _store_all(
        self, frozen: Mapping[str, tuple[FrozenState, ...]]
    ) -> dict[str, tuple[Document, ...]]:
        """Store all states; if one cannot be stored, release the others."""
        pending = [(step, each) for step, states in frozen.items() for each in states]
        documents: dict[str, list[Document]] = {step: [] for step in frozen}
        try:
            while pending:
                step, each = pending.pop(0)
                documents[step].append(each.persist(self.store))
            self.store.share_blobs()
        finally:
            for _, each in pending:
                each.release()
        return {step: tuple(stored) for step, stored in documents.items()}

    async def close(self) -> None:
        """Cancel the snapshot that is being written, and wait for its thread."""
        if self._storing_task is not None:
            self._storing_task.cancel()
            await asyncio.gather(self._storing_task, return_exceptions=True)
