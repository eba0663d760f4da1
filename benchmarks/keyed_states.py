"""State of many keys, for the benchmarks of stored state."""

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
    """Create a backend in that folder."""
    return RocksBackend(os.path.join(folder, "state"), memory)


def store(folder: str) -> LocalSnapshotStore:
    """Create an empty store in that folder."""
    made = LocalSnapshotStore(LocalDisk(), os.path.join(folder, "checkpoints"), "0" * 32)
    made.prepare()
    return made


def owner(*restored: FrozenState) -> StateOwnership:
    """Return the owner of all key groups."""
    return StateOwnership("totals", 0, range(GROUPS), GROUPS, restored)


def table(state: StepState) -> KeyedTable:
    """Return the only table, of about 100 bytes a row."""
    return state.open_table("keys", COLUMNS)


def rows(keys: pl.Series, round: int) -> pl.DataFrame:
    """Return a row of each key, different in each round; its text cannot be compressed."""
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
    """Put that many keys."""
    for part in parts(pl.int_range(keys, eager=True)):
        put(into, part, 0)


def put(into: KeyedTable, keys: pl.Series, round: int) -> None:
    """Put rows of these keys as operators do, which look them up first."""
    frame = rows(keys, round)
    into.find(frame[KEY])
    into.put(frame)


def parts(keys: pl.Series) -> Iterator[pl.Series]:
    """Yield the keys in chunks of the size of a batch."""
    for start in range(0, len(keys), ROWS):
        yield keys.slice(start, ROWS)


def checkpoint(state: StepState, into: LocalSnapshotStore) -> int:
    """Take a checkpoint and drop the previous one; return the bytes written."""
    before = into.bytes_written
    document = state.freeze().persist(into)
    number = max(into.list_checkpoints(), default=0) + 1
    into.commit(number, {"state": document})
    into.collect([number])
    return into.bytes_written - before
