"""Lookups of few keys among many rows: the rows copied, and the work deferred and reported."""

from __future__ import annotations

import random

import polars as pl
import pytest

from headrace.core.api.state import SLOT, RunsLayout
from headrace.state.memory import run_lookup
from headrace.state.memory.hash_index import HashIndex, decode_row_numbers, encode_entries
from headrace.state.memory.sorted_runs import (
    DEFER_BELOW_ROWS,
    MAX_SMALL_RUNS,
    MIN_LOOKUP_ROWS,
    MemoryRuns,
)

ROWS = 2 * MIN_LOOKUP_ROWS
COLUMNS = {"k": pl.Int64(), "n": pl.Int64()}


def merged(frame: pl.DataFrame) -> pl.DataFrame:
    """One row a key and slot."""
    return frame.group_by("k", SLOT).agg(pl.col("n").sum()).select(frame.columns)


def runs() -> MemoryRuns:
    """An empty state."""
    return MemoryRuns(RunsLayout(COLUMNS, ("k",), merged))


def rows(*keys: int, slot: int = 0) -> pl.DataFrame:
    """A row of each of these keys."""
    key = pl.Series("k", keys, dtype=pl.Int64)
    ones = pl.lit(1, dtype=pl.Int64).alias("n")
    return key.to_frame().with_columns(ones, pl.lit(slot, dtype=pl.Int64).alias(SLOT))


def one(key: int) -> pl.DataFrame:
    """A key to ask for."""
    return pl.DataFrame({"k": [key]}, schema={"k": pl.Int64})


def test_a_row_is_taken_out_of_a_large_run_without_a_copy_of_the_others() -> None:
    state = runs()
    state.add(rows(*range(ROWS)))
    whole = state.freeze().parts[0].all_rows
    for key in range(0, ROWS // 4, 3):
        taken = state.take_keys(one(key))
        assert taken is not None
        assert taken["k"].to_list() == [key]
        assert state.take_keys(one(key)) is None
    assert state.freeze().parts[0].all_rows is whole
    assert state.rows == ROWS - len(range(0, ROWS // 4, 3))


def test_a_snapshot_has_the_rows_that_are_taken_after_it() -> None:
    state = runs()
    state.add(rows(*range(ROWS)))
    state.take_keys(one(5))
    frozen = state.freeze()
    state.take_keys(one(6))
    state.drop(0)
    (frame,) = frozen.frames
    assert sorted(frame["k"]) == [key for key in range(ROWS) if key != 5]
    assert state.freeze().frames == ()


def test_the_first_lookup_sorts_all_rows_and_the_next_none() -> None:
    state = runs()
    state.add(rows(*range(ROWS)))
    assert state.estimate_deferred_rows(for_lookup=False) == 0
    assert state.estimate_deferred_rows(for_lookup=True) == ROWS
    assert state.read_keys(one(7), -1) is not None
    assert state.estimate_deferred_rows(for_lookup=True) == 0


def test_a_deferred_merge_is_announced_before_the_next_rows() -> None:
    state = runs()
    for at in range(MAX_SMALL_RUNS):
        assert state.estimate_deferred_rows(for_lookup=False) == 0
        state.add(rows(*range(100), slot=at))
    assert state.estimate_deferred_rows(for_lookup=False) == MAX_SMALL_RUNS * 100
    assert len(state.freeze().parts) == MAX_SMALL_RUNS
    state.add(rows(1))
    assert state.estimate_deferred_rows(for_lookup=False) == 0
    assert len(state.freeze().parts) == 2


def test_many_rows_do_what_they_set_off_themselves() -> None:
    state = runs()
    for at in range(MAX_SMALL_RUNS - 1):
        state.add(rows(*range(100), slot=at))
    state.add(rows(*range(DEFER_BELOW_ROWS), slot=99))
    for at in range(MAX_SMALL_RUNS):
        state.add(rows(1, slot=at))
    assert state.estimate_deferred_rows(for_lookup=False) == MAX_SMALL_RUNS
    state.add(rows(*range(DEFER_BELOW_ROWS), slot=99))
    assert state.estimate_deferred_rows(for_lookup=False) == 0


def test_what_is_mostly_gone_leaves_the_memory() -> None:
    state = runs()
    state.add(rows(*range(ROWS)))
    for first in range(0, ROWS - 1, 64):
        state.take_keys(pl.DataFrame({"k": range(first, min(first + 64, ROWS - 1))}))
        state.add(rows(-1))
    (large, *_) = state.freeze().parts
    assert sum(part.all_rows.height for part in state.freeze().parts) < ROWS // 4
    assert large.all_rows.height < ROWS // 4


@pytest.mark.parametrize("bits", [3, 40])
def test_entries_are_found_until_removed_despite_equal_hashes(bits: int) -> None:
    luck = random.Random(bits)
    places, model, added = HashIndex(), dict[int, int](), 0
    hashes = [(key * 0x9E3779B97F4A7C15 % (1 << bits)) << (64 - bits) for key in range(200)]
    for _ in range(200):
        keys = [luck.randrange(200) for _ in range(luck.choice([1, 5, 40]))]
        of = pl.Series([hashes[key] for key in keys], dtype=pl.UInt64)
        numbers = pl.int_range(added, added + len(keys), dtype=pl.UInt32, eager=True)
        places.add(encode_entries(of, numbers))
        model.update(zip(numbers, keys, strict=True))
        added += len(keys)
        asked = set(luck.sample(range(200), luck.choice([1, 4, 60])))
        sought = {hashes[key] for key in asked}
        found = places.find(pl.Series(list(sought), dtype=pl.UInt64))
        wanted = sorted(at for at, key in model.items() if hashes[key] in sought)
        assert sorted(decode_row_numbers(found)) == wanted
        gone = found.sample(fraction=0.7, seed=added)
        places.delete(gone)
        for at in decode_row_numbers(gone):
            del model[at]


def test_a_row_without_key_whose_hash_is_that_of_a_key_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_lookup, "hash_rows", lambda rows, key: rows["k"].hash() & 0)
    state = runs()
    state.add(rows(*[1] * ROWS))
    state.add(rows(1).with_columns(pl.lit(None, dtype=pl.Int64).alias("k")))
    found = state.take_keys(one(1))
    assert found is not None and found.rows() == [(1, ROWS, 0)]
    assert state.rows == 1
