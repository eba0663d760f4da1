"""State backend `rocksdb`: opens states that spill to disk, and thaws stored ones."""

from __future__ import annotations

import itertools
import os
import threading
from typing import TYPE_CHECKING

from headrace.core.owner import Owner
from headrace.core.snapshots import SnapshotStore
from headrace.core.state import Document, Frozen
from headrace.state.framing import FrameBlobs
from headrace.state.frozen import thawed
from headrace.state.rocks.budget import FOR_BLOCKS, Budget, Gate
from headrace.state.rocks.documents import FORMAT
from headrace.state.rocks.shelf import Shelf
from headrace.state.rocks.state import RocksState
from headrace.state.rocks.thawed import RocksThawed

if TYPE_CHECKING:
    from headrace.state.rocks.database import Caches


class RocksBackend:
    """Opens states that share one memory budget; the rest of the state is on disk in `folder`."""

    def __init__(self, folder: str, memory: int) -> None:
        self._folder = folder
        self._memory = memory
        self._blobs = FrameBlobs()
        self._budget = Budget(memory)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._shared: Caches | None = None

    def open(self, owner: Owner) -> RocksState:
        """Open the state of a subtask of a step, including restored state."""
        gate = Gate()
        return RocksState(owner, self._blobs, self._budget, self._shelf(gate), gate)

    def thawed(self, document: Document, store: SnapshotStore) -> Frozen:
        """Thaw a stored state, also one of the memory backend. Raises SnapshotError."""
        if document.get("format") != FORMAT:
            return thawed(document, store, self._blobs)
        return RocksThawed(document, store, self._blobs, self._shelf(Gate()))

    def _shelf(self, gate: Gate) -> Shelf:
        return Shelf(os.path.join(self._folder, str(next(self._numbers))), self._caches, gate)

    def _caches(self) -> Caches:
        """Return the caches that all databases share, allocated for the first one."""
        from headrace.state.rocks.database import Caches

        with self._lock:
            if self._shared is None:
                self._shared = Caches(int(self._memory * FOR_BLOCKS))
            return self._shared
