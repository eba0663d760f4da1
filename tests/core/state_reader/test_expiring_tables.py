"""The state of steps over tables with a `ttl`, also after a rescale and a change of the `ttl`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.state_backend import StateBackend
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.state_reader.step_states import StepStateReader
from headrace.core.types.elements import DELETE, EVENT_TIME
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.savepoints.snapshot_lookup import open_checkpoint
from headrace.state.storage.home import Home
from tests.support.runtime.crashing_jobs import Crashed, Fate, FlakyMemory, Life
from tests.support.runtime.faulty_disk import FaultyDisk

TEXT = """
settings: {{parallelism: {parallelism}}}
sources:
  rows:
    memory: {{data: in}}
    schema: {{id: bigint, g: string, v: bigint, at: timestamp, seq: bigint, _change: string}}
    event_time: at
    table: {{key: id, sequence: seq}}
{steps}sinks:
  agg_out: {{from: agg, memory: {{data: agg}}}}
  first_out: {{from: first, memory: {{data: first}}}}
  tied_out: {{from: tied, memory: {{data: tied}}}}
"""
STEPS = """
steps:
  agg:
    from: rows
    key: g
    aggregate: {{n: count(*), low: min(v), kinds: count(distinct v), "all": collect_set(v)}}
    {ttl}
  first: {{from: rows, key: g, top: {{n: 2, by: v}}, select: [g, v, rank], {ttl}}}
  tied: {{from: rows, key: g, top: {{n: 2, by: v, ties: rank}}, select: [g, v, rank], {ttl}}}
"""
QUERIES = """
steps:
  agg:
    sql: |
      select g, count(*) as n, min(v) as low, count(distinct v) as kinds, collect_set(v) as `all`
      from rows group by g
    {ttl}
  first:
    sql: |
      select g, v, row_number() over (partition by g order by v) as rank from rows qualify rank <= 2
    {ttl}
  tied:
    sql: |
      select g, v, rank() over (partition by g order by v) as rank from rows qualify rank <= 2
    {ttl}
"""
TTL = "ttl: 40s"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def second(at: int) -> datetime:
    return BEGIN + timedelta(seconds=at)


def changes(begin: int, *rows: tuple[int, str, int, int, str]) -> pl.DataFrame:
    """Return changes of a table: id, group, value, second and what they do, in their order."""
    values = [
        (id, g, v, second(at), seq, does) for seq, (id, g, v, at, does) in enumerate(rows, begin)
    ]
    numbers = dict.fromkeys(("id", "v", "seq"), pl.Int64())
    types = {**numbers, **dict.fromkeys(("g", "_change"), pl.String())}
    types |= {"at": pl.Datetime("us", "UTC")}
    names = ["id", "g", "v", "at", "seq", "_change"]
    return pl.DataFrame(values, {name: types[name] for name in names}, orient="row")


OLD = changes(
    0,
    *((number, "a", number, 0, "insert") for number in (1, 2, 3)),
    (4, "b", 4, 5, "insert"),
    (5, "b", 5, 5, "insert"),
    (6, "c", 6, 30, "insert"),
)
CLOCK = changes(10, (7, "d", 7, 60, "insert"))
"""The watermark passes 45 s: the groups `a` and `b` expire."""
NEW = changes(
    20,
    (1, "a", 1, 0, "delete"),  # late
    (8, "b", 8, 70, "insert"),
    (6, "c", 6, 30, "delete"),
    (9, "c", 2, 65, "insert"),
)


def list_tables(memory: FlakyMemory) -> dict[str, set[tuple[object, ...]]]:
    """Return the tables that the sinks have, and the rows that were added and not removed."""
    tables = dict[str, set[tuple[object, ...]]]()
    for name, key in (("agg", ["g"]), ("first", ["g", "rank"])):
        whole = pl.concat(memory.outputs[name], how="diagonal")
        last = whole.unique(key, keep="last", maintain_order=True).filter(~pl.col(DELETE))
        tables[name] = {
            tuple(tuple(v) if isinstance(v, list) else v for v in row)
            for row in last.drop(DELETE, EVENT_TIME, strict=False).rows()
        }
    tied: Counter[tuple[object, ...]] = Counter()
    for *row, deleted in pl.concat(memory.outputs["tied"]).select("g", "v", "rank", DELETE).rows():
        tied[tuple(row)] += -1 if deleted else 1
    assert max(tied.values()) == 1
    tables["tied"] = {*+tied}
    return tables


@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize(
    ("steps", "is_killed", "before", "after"),
    [
        (STEPS, True, TTL, TTL),
        (STEPS, False, TTL, TTL),
        (STEPS, False, "", TTL),
        (STEPS, False, TTL, ""),
        (QUERIES, False, TTL, TTL),
    ],
)
def test_groups_are_forgotten_across_a_rescale_and_a_change_of_ttl(
    tmp_path: Path, spills: bool, steps: str, is_killed: bool, before: str, after: str
) -> None:
    memory, numbers = FlakyMemory({"in": {"0": [OLD, 0.1, CLOCK, 5.0, NEW]}}), count()

    def life(text: str) -> Life:
        backend: Callable[[], StateBackend] = MemoryBackend
        if spills:
            backend = partial(RocksBackend, f"{tmp_path}/state-{next(numbers)}", 1)
        schedule, root = CheckpointSchedule(interval_s=0.3), f"{tmp_path}/jobs"
        return Life(tmp_path, text, memory, schedule, backend=backend, disk=FaultyDisk(), root=root)

    fate = Fate(killed_at=1.0) if is_killed else Fate(stopped_at=1.0)
    with suppress(Crashed):
        life(TEXT.format(parallelism=1, steps=steps.format(ttl=before))).run(1, fate)
    if before and steps is STEPS:
        check_stored(Home(FaultyDisk(), f"{tmp_path}/jobs", "test"))
    assert life(TEXT.format(parallelism=3, steps=steps.format(ttl=after))).run(2).failure is None
    # A key that had no ttl stays stored until its next row.
    b = ("b", 1, 8, 1, (8,)) if before else ("b", 3, 4, 3, (4, 5, 8))
    ranked = [("b", 8, 1), ("b", 5, 2)] if before else [("b", 4, 1), ("b", 5, 2)]
    assert list_tables(memory) == {
        "agg": {("a", 3, 1, 3, (1, 2, 3)), b, ("c", 1, 2, 1, (2,)), ("d", 1, 7, 1, (7,))},
        "first": {("a", 1, 1), ("a", 2, 2), *ranked, ("c", 2, 1), ("d", 7, 1)},
        "tied": {("a", 1, 1), ("a", 2, 2), ("b", 4, 1), *ranked, ("c", 2, 1), ("d", 7, 1)},
    }


def check_stored(home: Home) -> None:
    """Check that the state has the groups that are not forgotten, and when they expire."""
    with open_checkpoint(home) as kept:
        for name in ("agg", "first", "tied"):
            step = StepStateReader.from_document(name, kept.document, kept.thaw_step(name))
            assert not step.raw_reason
            keys, newest = (pl.concat(step.read_rows(state)) for state in ("keys", "newest"))
            times = [("c", second(30)), ("d", second(60))]
            assert sorted(newest.select("g", "time").rows()) == times
            assert keys.columns[-2:] == ["event_time", "until"]
            until = [(g, at, at + timedelta(seconds=40)) for g, at in times]
            assert sorted(keys.select("g", "event_time", "until").rows()) == until
            pages = "values" if name == "agg" else "ranking"
            assert sorted(pl.concat(step.read_rows(pages))["g"]) == ["c", "d"]
