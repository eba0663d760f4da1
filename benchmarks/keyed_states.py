"""States of many keys, for the benchmarks of what is stored of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import polars as pl

from headrace.core.api.state import KEY, FrozenState, KeyedTable, StepState
from headrace.core.api.state_backend import StateOwnership
from headrace.core.types.key_groups import encode_keys
from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.local_store import LocalSnapshotStore

GROUPS = 128
ROWS = 65_536
COLUMNS = {"n": pl.Int64(), "total": pl.Float64(), "name": pl.String()}


def backend(folder: str, memory: int) -> RocksBackend:
    """A backend, in a folder of that one."""
    return RocksBackend(os.path.join(folder, "state"), memory)


def store(folder: str) -> LocalSnapshotStore:
    """An empty store, in a folder of that one."""
    made = LocalSnapshotStore(LocalDisk(), os.path.join(folder, "checkpoints"), "0" * 32)
    made.prepare()
    return made


def owner(*restored: FrozenState) -> StateOwnership:
    """Who owns all key groups."""
    return StateOwnership("totals", 0, range(GROUPS), GROUPS, restored)


def table(state: StepState) -> KeyedTable:
    """The one table, of about 100 bytes a row."""
    return state.open_table("keys", COLUMNS)


def rows(keys: pl.Series, round: int) -> pl.DataFrame:
    """A row of each key, other ones in each round; the texts do not get smaller by packing."""
    noise = keys.hash(round).cast(pl.String) + keys.hash(round + 1).cast(pl.String)
    frame = pl.DataFrame({"key": keys})
    return pl.DataFrame(
        {
            KEY: encode_keys(frame),
            "n": keys.hash(7) % 1000,
            "total": (keys.hash(round) % 1_000_000).cast(pl.Float64) / 7,
            "name": noise,
        },
        schema_overrides={"n": pl.Int64},
    )


def fill(into: KeyedTable, keys: int) -> None:
    """Put so many keys."""
    for part in parts(pl.int_range(keys, eager=True)):
        put(into, part, 0)


def put(into: KeyedTable, keys: pl.Series, round: int) -> None:
    """Put rows of these keys as operators do, who look for them before."""
    frame = rows(keys, round)
    into.find(frame[KEY])
    into.put(frame)


def parts(keys: pl.Series) -> Iterator[pl.Series]:
    """So many at a time as come in a batch."""
    for start in range(0, len(keys), ROWS):
        yield keys.slice(start, ROWS)


def checkpoint(state: StepState, into: LocalSnapshotStore) -> int:
    """Take one and drop the one before; how many bytes it wrote."""
    before = into.bytes_written
    document = state.freeze().persist(into)
    number = max(into.list_checkpoints(), default=0) + 1
    into.commit(number, {"state": document})
    into.collect([number])
    return into.bytes_written - before
