"""State backend `rocksdb`: opens states that spill to disk, and thaws stored ones."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import Document, FrozenState
from headrace.core.api.state_backend import StateOwnership
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.step_snapshot import thaw_frames
from headrace.state.rocks.documents import FORMAT
from headrace.state.rocks.memory_budget import BLOCK_CACHE_SHARE, MemoryBudget, SnapshotGuard
from headrace.state.rocks.state import RocksState
from headrace.state.rocks.step_directory import StepDirectory
from headrace.state.rocks.thawed_snapshot import thaw_rocks_snapshot

if TYPE_CHECKING:
    from headrace.state.rocks.database import SharedCaches


class RocksBackend:
    """Opens states that share one memory budget; the rest of the state is on disk in `folder`."""

    def __init__(
        self,
        folder: str,
        memory: int,
        before_removal: Callable[[str], None] = lambda folder: None,
    ) -> None:
        self._folder = folder
        self._before_removal = before_removal
        self._memory = memory
        self._blobs = FrameBlobs()
        self._budget = MemoryBudget(memory)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._shared_caches: SharedCaches | None = None

    def open_state(self, owner: StateOwnership) -> RocksState:
        """Open the state of a subtask of a step, including restored state."""
        guard = SnapshotGuard()
        directory = self._create_directory(guard)
        directory.before_removal = self._before_removal
        return RocksState(owner, self._blobs, self._budget, directory, guard)

    def thaw(self, document: Document, store: SnapshotStore) -> FrozenState:
        """Thaw a stored state, also one of the memory backend. Raises SnapshotError."""
        if document.get("format") != FORMAT:
            return thaw_frames(document, store, self._blobs)
        directory = self._create_directory(SnapshotGuard())
        return thaw_rocks_snapshot(document, store, self._blobs, directory)

    def _create_directory(self, guard: SnapshotGuard) -> StepDirectory:
        return StepDirectory(
            os.path.join(self._folder, str(next(self._numbers))), self._get_caches, guard
        )

    def _get_caches(self) -> SharedCaches:
        """Return the caches that all databases share, allocated for the first one."""
        from headrace.state.rocks.database import SharedCaches

        with self._lock:
            if self._shared_caches is None:
                self._shared_caches = SharedCaches(int(self._memory * BLOCK_CACHE_SHARE))
            return self._shared_caches
