"""State that spills to disk: against its model, with next to no memory."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.local_store import LocalSnapshotStore
from tests.support.state.model import Modelled

FOLDER = tempfile.TemporaryDirectory(prefix="headrace-rocks-")
NUMBERS = itertools.count()


def folder() -> str:
    """A new one."""
    return str(Path(FOLDER.name) / str(next(NUMBERS)))


def store() -> LocalSnapshotStore:
    """A store on this disk: files of state are linked into it."""
    made = LocalSnapshotStore(LocalDisk(), folder(), "0" * 32)
    made.prepare()
    return made


class Spilling(Modelled):
    """The model test over a backend whose memory holds a few rows."""

    backend = staticmethod(lambda: RocksBackend(folder(), 100))
    store = staticmethod(store)
    is_in_memory = False


class Roomy(Modelled):
    """The model test over a backend that has room for everything."""

    backend = staticmethod(lambda: RocksBackend(folder(), 1 << 28))
    store = staticmethod(store)
    is_in_memory = False


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which everything happens that else takes millions of rows."""
    shrink(monkeypatch)


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have such sizes."""
    monkeypatch.setattr("headrace.state.memory.hash_table.MIN_SLOTS", 4)
    monkeypatch.setattr("headrace.state.memory.table.MIN_GARBAGE", 3)
    monkeypatch.setattr("headrace.state.memory.frame_blobs.MAX_BLOB_BYTES", 100)
    monkeypatch.setattr("headrace.state.rocks.table.MIN_FLUSH_ROWS", 2)
    monkeypatch.setattr("headrace.state.rocks.table.FLUSH_FACTOR", 1)
    monkeypatch.setattr("headrace.state.rocks.table.TOMBSTONE_BATCH", 3)
    monkeypatch.setattr("headrace.state.rocks.table.USAGE_REPORT_ROWS", 1)
    monkeypatch.setattr("headrace.state.rocks.sorted_runs.TARGET_FILE_BYTES", 100)
    monkeypatch.setattr("headrace.state.rocks.sorted_runs.KEY_PARTITIONS", 2)
    monkeypatch.setattr("headrace.state.rocks.sorted_runs.MAX_RUNS_PER_LEVEL", 2)
    monkeypatch.setattr("headrace.state.rocks.disk_rows.BATCH_ROWS", 4)


TestSpilling = Spilling.TestCase
# A failure is reported unshrunk: shrinking takes minutes, as each step opens databases.
TestSpilling.settings = settings(
    deadline=None, max_examples=30, stateful_step_count=30, phases=(Phase.explicit, Phase.generate)
)
TestRoomy = Roomy.TestCase
TestRoomy.settings = settings(deadline=None, max_examples=20, stateful_step_count=30)
