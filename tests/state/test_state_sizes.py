"""Reported sizes of states: rows exactly where all are in memory, bytes about right."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.state import KEY, Redistribution
from headrace.core.api.state_backend import StateBackend, StateOwnership
from headrace.core.api.state_sizes import StateSize
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.local_store import LocalSnapshotStore
from tests.state.rocks.test_spilling import ALL, COLUMNS, LAYOUT, NONE, ROOM, ROWS, filed, rows


@pytest.mark.parametrize("name", ["memory", "rocksdb"])
def test_what_is_in_memory_is_counted_and_weighed_by_state(tmp_path: Path, name: str) -> None:
    folder = str(tmp_path)
    backend: StateBackend = MemoryBackend() if name == "memory" else RocksBackend(folder, ROOM)
    state = backend.open_state(ALL)
    assert state.measure_sizes() == {}
    table, runs = state.open_table("rows", COLUMNS), state.open_runs("filed", LAYOUT)
    entries = state.open_entries("where", Redistribution.LIST)
    assert set(state.measure_sizes()) == {"rows", "filed", "where"}
    assert [state.measure_sizes()[each].rows for each in ("filed", "where")] == [0, 0]
    put, added = rows(0, 5000), filed(0, 5000)
    table.put(put)
    runs.add(added)
    entries.rows = pl.DataFrame({"x": [1, 2]})
    sizes = state.measure_sizes()
    assert [sizes[each].rows for each in ("rows", "filed", "where")] == [5000, 5000, 2]
    assert sum(sizes.values(), StateSize()).disk_bytes == 0
    assert sizes["rows"].bytes >= put.estimated_size()
    assert added.estimated_size() <= sizes["filed"].bytes < 2 * added.estimated_size()
    table.remove(put[KEY].head(1000))
    runs.take(0)
    assert [state.measure_sizes()[each].rows for each in ("rows", "filed")] == [4000, 0]
    assert state.measure_sizes()["filed"].bytes == 0
    state.close()


def test_what_spilled_is_on_disk_also_when_it_has_been_taken_over(tmp_path: Path) -> None:
    store = LocalSnapshotStore(LocalDisk(), str(tmp_path / "checkpoints"), "0" * 32)
    store.prepare()
    state = RocksBackend(str(tmp_path / "1"), NONE).open_state(ALL)
    table, runs = state.open_table("rows", COLUMNS), state.open_runs("filed", LAYOUT)
    for start in range(0, ROWS, ROWS // 4):
        table.put(rows(start, ROWS // 4))
    runs.add(filed(0))
    files = list((tmp_path / "1").rglob("*.run"))
    size = state.measure_sizes()["filed"]
    assert size == StateSize(ROWS, 0, sum(file.stat().st_size for file in files))
    assert state.measure_sizes()["rows"].rows >= ROWS
    assert state.measure_sizes()["rows"].bytes > 0  # buffers, until a checkpoint
    document = state.freeze().persist(store)
    store.commit(1, {"state": document})
    backend = RocksBackend(str(tmp_path / "2"), NONE)
    again = backend.open_state(
        StateOwnership("step", 0, range(8), 8, (backend.thaw(document, store),))
    )
    assert again.open_runs("filed", LAYOUT)
    assert again.measure_sizes()["filed"] == size
    again.open_table("rows", COLUMNS).find(rows(0, 1)[KEY])
    on_disk = again.measure_sizes()["rows"].disk_bytes
    tables = sum(file.stat().st_size for file in (tmp_path / "2").rglob("*.sst"))
    assert 0 < on_disk <= tables
    runs.drop(0)
    assert state.measure_sizes()["filed"] == StateSize()
    state.close()
    again.close()
