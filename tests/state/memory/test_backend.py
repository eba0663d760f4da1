"""State in memory: against its model, and what it does with memory."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings

from headrace.core.api.state import EXPIRY, KEY, SLOT, RunsLayout
from headrace.core.api.state_backend import StateOwnership
from headrace.core.types.key_groups import compute_row_groups, get_keyless_group
from headrace.state.memory.backend import MemoryBackend
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.state.model import Modelled


def store() -> LocalSnapshotStore:
    """A store on a disk in memory."""
    made = LocalSnapshotStore(MemoryDisk(), "/checkpoints", "0" * 32)
    made.prepare()
    return made


class InMemory(Modelled):
    """The model test over the memory backend."""

    backend = MemoryBackend
    store = staticmethod(store)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which everything happens that else takes millions of rows."""
    monkeypatch.setattr("headrace.state.memory.sorted_runs.MAX_SMALL_RUNS", 3)
    monkeypatch.setattr("headrace.state.memory.sorted_runs.MIN_MERGE_BYTES", 200)
    monkeypatch.setattr("headrace.state.memory.sorted_runs.MERGE_PARTITION_ROWS", 12)
    monkeypatch.setattr("headrace.state.memory.sorted_runs.MIN_LOOKUP_ROWS", 4)
    monkeypatch.setattr("headrace.state.memory.sorted_runs.LOOKUP_RATIO", 2)
    monkeypatch.setattr("headrace.state.memory.sorted_runs.DEFER_BELOW_ROWS", 4)
    monkeypatch.setattr("headrace.state.memory.hash_index.MAX_SCALAR_KEYS", 2)
    monkeypatch.setattr("headrace.state.memory.run_lookup.MIN_STALE_ENTRIES", 4)
    monkeypatch.setattr("headrace.state.memory.sorted_run.INITIAL_SCAN_ROWS", 1)
    monkeypatch.setattr("headrace.state.memory.table.MIN_GARBAGE", 3)
    monkeypatch.setattr("headrace.state.memory.table.DEFER_BELOW_ROWS", 3)
    monkeypatch.setattr("headrace.state.memory.hash_table.MIN_SLOTS", 4)


TestInMemory = InMemory.TestCase
TestInMemory.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)


def test_a_row_may_be_of_the_group_of_another_column_than_its_key() -> None:
    state = MemoryBackend().open_state(StateOwnership("step", 0, range(8), 8))
    panes = state.open_table("panes", {"k": pl.Int64()}, ("k",))
    whole = state.open_table("whole", {"k": pl.Int64()}, ())
    rows = pl.DataFrame({"k": list(range(20))}).select(pl.format("{}/7", "k").alias(KEY), "k")
    panes.put(rows)
    whole.put(rows)
    frozen = state.freeze()
    for group in range(8):
        found = frozen.read_table("panes", range(group, group + 1))
        wanted = rows.filter(compute_row_groups(rows, ["k"], 8) == group)
        assert (rows.clear() if found is None else found).equals(wanted)
        all_of_it = frozen.read_table("whole", range(group, group + 1))
        assert (all_of_it is not None) == (group == get_keyless_group(8))


def test_what_nobody_opened_since_is_still_there() -> None:
    key = pl.Series(KEY, ["a"])
    first = MemoryBackend().open_state(StateOwnership("step", 0, range(8), 8))
    first.open_table("rows", {}).put(key.to_frame())
    second = MemoryBackend().open_state(StateOwnership("step", 0, range(8), 8, (first.freeze(),)))
    frozen = second.freeze()
    assert frozen.names == {"rows"}
    third = MemoryBackend().open_state(StateOwnership("step", 0, range(8), 8, (frozen,)))
    assert third.open_table("rows", {}).find(key).height == 1


def test_keys_that_are_over_and_rows_that_are_replaced_leave_the_memory() -> None:
    table = (
        MemoryBackend().open_state(StateOwnership("step", 0, range(8), 8)).open_table("rows", {})
    )
    most = 0
    for now in range(300):
        table.expire(now)
        rows = {KEY: ["always", str(now)], EXPIRY: [None, now + 10]}
        table.put(pl.DataFrame(rows, schema={KEY: pl.String, EXPIRY: pl.Int64}))
        most = max(most, sum(frame.height for frame in table.freeze().frames))
    assert table.rows < 40
    assert most < 100


def resident_mb() -> float:
    """Return the memory of this process, as the system reports it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def large(at: int) -> pl.DataFrame:
    """40 MB of long texts; few of them are retained."""
    numbers = pl.int_range(200_000, eager=True)
    texts = (numbers + at * 200_000).cast(pl.String) + "x" * 180
    return pl.DataFrame({"k": numbers % 50_000, "s": texts})


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="wants Linux's account")
def test_stored_frames_retain_nothing_else_in_memory() -> None:
    layout = RunsLayout({"k": pl.Int64(), "s": pl.String()}, ("k",), lambda frame: frame)
    states = [
        MemoryBackend().open_state(StateOwnership("step", at, range(8), 8)) for at in range(12)
    ]
    before = resident_mb()
    for at, state in enumerate(states):
        few = large(at).group_by("k").agg(pl.col("s").first()).head(100)
        state.open_runs("filed", layout).add(few.with_columns(pl.lit(at, pl.Int64).alias(SLOT)))
        keyed = few.select(pl.col("k").cast(pl.String).alias(KEY), "s")
        state.open_table("rows", {"s": pl.String()}).put(keyed)
    assert resident_mb() - before < 300  # the texts of all 12 are 480 MB
