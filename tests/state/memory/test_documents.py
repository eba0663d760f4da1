"""Documents of state in memory: their contents, and reading them back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from headrace.core.api.snapshots import DamagedSnapshot, find_blobs
from headrace.core.api.state import EXPIRY, KEY, SLOT, Document, RunsLayout, StateDescriptor
from headrace.core.api.state_backend import StateOwnership
from headrace.state.memory.backend import MemoryBackend, MemoryState
from headrace.state.memory.frame_blobs import decode_frame, encode_frame
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.state.memory.test_backend import store

OWNER = StateOwnership("step", 0, range(8), 8)
LAYOUT = RunsLayout({"k": pl.Int64(), "s": pl.String()}, ("k",), lambda frame: frame)


def rows(start: int, count: int) -> pl.DataFrame:
    """Rows of a table that LZ4 cannot make much smaller."""
    numbers = pl.int_range(start, start + count, eager=True)
    texts = (numbers * 7_919).hash(1).cast(pl.String)
    return pl.DataFrame({KEY: numbers.cast(pl.String), "s": texts})


def filed(slot: int, count: int) -> pl.DataFrame:
    """Rows of runs, under one time."""
    return rows(slot * count, count).select(
        pl.col(KEY).cast(pl.Int64).alias("k"), "s", pl.lit(slot, dtype=pl.Int64).alias(SLOT)
    )


def test_every_type_that_state_may_have_comes_back() -> None:
    frame = pl.DataFrame(
        {
            "decimal": [Decimal("1.10"), None],
            "limbs": [[Decimal(1), None], None],
            "struct": [{"a": 1, "b": ["x", None]}, None],
            "structs": [[{"x": Decimal("1.5"), "at": datetime(2026, 1, 31, tzinfo=UTC)}], []],
            "nothing": [None, None],
            "binary": [b"\xff", None],
            "date": [date(2020, 1, 1), None],
            "time": [datetime(2026, 1, 31, tzinfo=UTC), None],
            "days": [timedelta(1), None],
            "float": [float("nan"), -0.0],
            "enum": pl.Series(["a", None], dtype=pl.Enum(["a", "b"])),
            "count": pl.Series([1, None], dtype=pl.UInt32),
            "great": pl.Series([2**100, None], dtype=pl.Int128),
        },
        schema_overrides={"decimal": pl.Decimal(38, 6), "limbs": pl.List(pl.Decimal(38, 0))},
    )
    for part in (frame, frame.clear(), frame.slice(1), frame.select("nothing")):
        back = decode_frame(bytes(encode_frame(part)))
        assert back.schema == part.schema
        assert back.equals(part)


def test_what_is_stored_already_is_not_written_again() -> None:
    kept, state = store(), MemoryBackend().open_state(OWNER)
    runs, table = state.open_runs("filed", LAYOUT), state.open_table("rows", {"s": pl.String()})
    runs.add(filed(0, 20_000))
    table.put(rows(0, 20_000))
    first = written(state, kept)
    runs.add(filed(1, 200))
    table.put(rows(20_000, 200))
    assert written(state, kept) < first / 50
    assert written(state, kept) == 0


def test_what_is_dropped_leaves_the_rest_of_a_frame_where_it_was_stored() -> None:
    kept, state = store(), MemoryBackend().open_state(OWNER)
    runs = state.open_runs("filed", LAYOUT)
    runs.add(pl.concat([filed(0, 1000), filed(1, 2000)]))
    assert written(state, kept) > 0
    runs.drop(0)
    assert written(state, kept) == 0
    document = checkpointed(state, kept)
    thawed = MemoryBackend().thaw(document, kept)
    assert [frame.height for frame in thawed.read_runs("filed", range(8))] == [2000]


def test_a_frame_that_the_store_has_lost_is_put_again() -> None:
    kept, state = store(), MemoryBackend().open_state(OWNER)
    state.open_runs("filed", LAYOUT).add(filed(0, 100))
    first = written(state, kept)
    kept.collect([])
    assert written(state, kept) == first


def test_a_restored_state_writes_nothing_that_is_there() -> None:
    kept, backend = store(), MemoryBackend()
    state = backend.open_state(OWNER)
    state.open_runs("filed", LAYOUT).add(filed(0, 1000))
    state.open_table("rows", {"s": pl.String()}).put(rows(0, 1000))
    document = checkpointed(state, kept)
    again = backend.open_state(
        StateOwnership("step", 0, range(8), 8, (backend.thaw(document, kept),))
    )
    assert written(again, kept) == 0
    again.open_runs("filed", LAYOUT)
    assert written(again, kept) == 0


def test_what_nobody_opens_is_stored_with_its_shape() -> None:
    kept, state = store(), MemoryBackend().open_state(OWNER)
    state.open_runs("filed", LAYOUT).add(filed(0, 100))
    state.open_table("panes", {"s": pl.String()}, ("s",)).put(rows(0, 100))
    state.open_table("keys", {}).put(rows(0, 100).select(KEY))
    for groups in (range(8), range(3)):
        thawed = MemoryBackend().thaw(checkpointed(state, kept), kept)
        state = MemoryBackend().open_state(StateOwnership("step", 0, groups, 8, (thawed,)))
    frozen = state.freeze()
    assert frozen.names == {"filed", "panes", "keys"}
    assert frozen.describe_state("filed") == StateDescriptor(is_table=False, key=("k",))
    assert frozen.describe_state("panes") == StateDescriptor(is_table=True, key=("s",))
    assert frozen.describe_state("keys") == StateDescriptor(is_table=True, key=None)
    assert 0 < sum(frame.height for frame in frozen.read_runs("filed", range(8))) < 100


def test_clock_counts_and_what_was_removed_come_back() -> None:
    kept, state = store(), MemoryBackend().open_state(OWNER)
    table = state.open_table("rows", {"s": pl.String()})
    table.put(rows(0, 3).with_columns(pl.lit(5, dtype=pl.Int64).alias(EXPIRY)))
    table.put(rows(3, 3))
    table.remove(pl.Series(["4"]))
    table.expire(6)
    state.clock_us, state.counters.late, state.counters.unfilled = 17, 3, 4
    thawed = MemoryBackend().thaw(checkpointed(state, kept), kept)
    assert (thawed.groups, thawed.clock_us) == (range(8), 17)
    assert (thawed.counters.late, thawed.counters.unfilled) == (3, 4)
    found = thawed.read_table("rows", range(8))
    assert found is not None
    assert sorted(found[KEY]) == ["3", "5"]


def test_a_damaged_frame_is_named() -> None:
    disk = MemoryDisk()
    kept = LocalSnapshotStore(disk, "/checkpoints", "0" * 32)
    kept.prepare()
    state = MemoryBackend().open_state(OWNER)
    state.open_runs("filed", LAYOUT).add(filed(0, 100))
    document = checkpointed(state, kept)
    (blob,) = find_blobs(document)
    path = f"/checkpoints/blobs/{blob.hash}"
    disk.remove(path)
    disk.write(path, (bytes(blob.bytes),))
    with pytest.raises(DamagedSnapshot, match=blob.hash) as raised:
        MemoryBackend().thaw(document, kept)
    assert raised.value.checkpoints == (1,)


@pytest.mark.parametrize("data", [b"", b"abc", bytes(encode_frame(rows(0, 9))[:-100])])
def test_bytes_that_are_no_frame_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedSnapshot, match="wanted a frame of state"):
        decode_frame(data)


def test_a_document_of_another_kind_is_damage() -> None:
    with pytest.raises(DamagedSnapshot, match="wanted the state of a step"):
        MemoryBackend().thaw({"groups": [0, 8]}, store())


def checkpointed(state: MemoryState, kept: LocalSnapshotStore) -> Document:
    """The next checkpoint's document."""
    document = state.freeze().persist(kept)
    number = max(kept.list_checkpoints(), default=0) + 1
    kept.commit(number, {"state": document})
    kept.collect([number])
    return document


def written(state: MemoryState, kept: LocalSnapshotStore) -> int:
    """Return the number of bytes that the next checkpoint writes."""
    before = kept.bytes_written
    checkpointed(state, kept)
    return kept.bytes_written - before
