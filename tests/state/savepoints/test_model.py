"""State that goes through savepoints, against its model: of both backends, at any parallelism."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import Phase, settings

from headrace.core.api.state import FrozenState
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.savepoints.export import export_checkpoint
from headrace.state.savepoints.savepoint import Savepoint, commit_as_checkpoint, open_savepoint
from headrace.state.savepoints.writer import write_savepoint
from headrace.state.storage.memory_disk import MemoryDisk
from tests.state.memory import test_backend as memory
from tests.state.rocks import test_backend as rocks
from tests.support.state.model import Modelled

NUMBERS = itertools.count()


class Saved(Modelled):
    """The model test, in which every checkpoint is made a savepoint, and that one a checkpoint."""

    def _thawed(self, number: int) -> tuple[FrozenState, ...]:
        savepoint = self._savepoint(number)
        if number % 2:
            return savepoint.thaw_step("step")
        again, backend = memory.store(), type(self).backend()
        document = commit_as_checkpoint(savepoint, again, 1)["states"]
        assert isinstance(document, dict)
        (documents,) = document["step"]
        return tuple(backend.thaw(each, again) for each in documents)

    def _savepoint(self, number: int) -> Savepoint:
        said = self.checkpoints.read_manifest(number)
        document = {**said, "sinks": {}}
        disk = MemoryDisk()
        with write_savepoint(disk, "/savepoint") as to:
            backend = type(self).backend()
            to.finish(export_checkpoint(document, self.checkpoints, backend, to, {"taken": ""}))
        return open_savepoint("/savepoint", disk)


class SavedInMemory(Saved):
    """Of the memory backend."""

    backend = MemoryBackend
    store = staticmethod(memory.store)


class SavedSpilling(Saved):
    """Of the other one, with next to no memory."""

    backend = staticmethod(lambda: RocksBackend(rocks.folder(), 100))
    store = staticmethod(rocks.store)
    is_in_memory = False


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which everything happens that else takes millions of rows."""
    rocks.shrink(monkeypatch)
    monkeypatch.setattr("headrace.state.savepoints.export.TARGET_FILE_BYTES", 150)
    monkeypatch.setattr("headrace.state.savepoints.parquet_frames.ROW_GROUP_ROWS", 2)
    monkeypatch.setattr("headrace.state.savepoints.checkpoint_rows.HASHES_PER_PASS", 5)


TestSavedInMemory = SavedInMemory.TestCase
TestSavedInMemory.settings = settings(deadline=None, max_examples=30, stateful_step_count=30)
TestSavedSpilling = SavedSpilling.TestCase
# A failure is reported unshrunk: shrinking takes minutes, as each step opens databases.
TestSavedSpilling.settings = settings(
    deadline=None, max_examples=15, stateful_step_count=30, phases=(Phase.explicit, Phase.generate)
)
