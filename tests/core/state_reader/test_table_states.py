"""The state of a table's source: the newest change of each key, for people and after a change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.state_backend import StateBackend
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.state_reader.step_states import StepStateReader
from headrace.core.types.elements import DELETE
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.savepoints.snapshot_lookup import open_checkpoint
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life

TEXT = """
settings: {{parallelism: {parallelism}}}
sources:
  c:
    memory: {{data: in}}
    schema: {{id: bigint, v: string, seq: bigint, _change: string}}
    table: {{key: id, sequence: seq{ttl}}}
sinks:
  out: {{from: c, memory: {{data: out}}}}
"""
TTL = ", ttl: {after: 1h, time: processing}"


def changes(*rows: tuple[int, str | None, int, str]) -> pl.DataFrame:
    types = {"id": pl.Int64(), "v": pl.String(), "seq": pl.Int64(), "_change": pl.String()}
    return pl.DataFrame(rows, types, orient="row")


BEFORE = changes((1, "a", 5, "insert"), (2, "b", 5, "insert"), (2, None, 6, "delete"))
AFTER = changes((1, "old", 4, "insert"), (2, "old", 4, "insert"), (3, "c", 1, "insert"))


@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize(("before", "after"), [("", ""), ("", TTL), (TTL, "")])
def test_deletions_are_remembered_after_a_rescale_and_a_change_of_ttl(
    tmp_path: Path, spills: bool, before: str, after: str
) -> None:
    memory, disk = FlakyMemory({"in": {"0": [BEFORE, 5.0, AFTER]}}), MemoryDisk()

    def life(text: str) -> Life:
        backend: Callable[[], StateBackend] = MemoryBackend
        if spills:
            backend = partial(RocksBackend, f"{tmp_path}/state", 1)
        schedule = CheckpointSchedule(interval_s=0.3)
        return Life(tmp_path, text, memory, schedule, backend=backend, disk=disk, root="/home")

    stopped = life(TEXT.format(parallelism=1, ttl=before)).run(1, Fate(stopped_at=1.0))
    assert stopped.failure is None
    with open_checkpoint(Home(disk, "/home", "test")) as kept:
        step = StepStateReader.from_document("c@table", kept.document, kept.thaw_step("c@table"))
        assert not step.raw_reason
        shown = pl.concat(step.read_rows("keys"))
    assert shown.columns == ["id", "sequence", "deleted", *(["until"] if before else [])]
    assert sorted(shown.select("id", "sequence", "deleted").rows()) == [
        (1, 5, False),
        (2, 6, True),
    ]
    resumed = life(TEXT.format(parallelism=3, ttl=after)).run(2)
    assert resumed.failure is None
    rows = [row for each in memory.outputs["out"] for row in each["id", "v", DELETE].rows()]
    assert sorted(rows) == [(1, "a", False), (3, "c", False)]


DEDUP = """
sources:
  rows:
    memory: {data: in}
    schema: {id: bigint, city: string, at: timestamp, seq: bigint}
    table: {key: id, sequence: seq}
    event_time: at
steps:
  newest: {from: rows, dedup: {key: city, keep: last, order: event_time}}
sinks:
  out: {from: newest, memory: {data: out}}
"""


def test_a_dedup_of_a_table_shows_rows_and_their_times(tmp_path: Path) -> None:
    columns = {"id": pl.Int64(), "city": pl.String(), "at": pl.Datetime("us", "UTC")}
    values = [(n, "Wien", datetime(2026, 1, 1, 0, n, tzinfo=UTC)) for n in (1, 2)]
    rows = pl.DataFrame(values, columns, orient="row").with_columns(seq=pl.lit(1, pl.Int64()))
    memory, disk = FlakyMemory({"in": {"0": [rows, 5.0]}}), MemoryDisk()
    schedule = CheckpointSchedule(interval_s=0.3)
    life = Life(tmp_path, DEDUP, memory, schedule, disk=disk, root="/home")
    assert life.run(1, Fate(stopped_at=1.0)).failure is None
    with open_checkpoint(Home(disk, "/home", "test")) as kept:
        step = StepStateReader.from_document("newest", kept.document, kept.thaw_step("newest"))
        emitted, stored = (pl.concat(step.read_rows(state)) for state in ("keys", "ranking"))
    assert emitted.columns == stored.columns == ["city", "id", "at", "seq", "event_time"]
    assert emitted["id", "event_time"].rows() == [values[1][::2]]
    assert sorted(stored["id", "event_time"].rows()) == [each[::2] for each in values]
