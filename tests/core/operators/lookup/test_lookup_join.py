"""Lookups in jobs, on the simulated loop: order, retries, the cache, barriers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.connectors.memory_lookup import Key, LookupTableData
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.job import JobOutcome
from headrace.core.operators.lookup.client import LookupStatistics
from headrace.core.worker.statistics import PartCounts
from tests.support.runtime.memory_pipelines import cut, job_of, run_simulated

NAMES = pl.DataFrame({"id": range(0, 20, 2), "name": [f"n{i}" for i in range(0, 20, 2)]})
ROWS = pl.DataFrame({"n": range(40), "customer": [i % 10 for i in range(40)]})

PIPELINE = """
settings: {{parallelism: {parallelism}}}
sources:
  in: {{memory: {{data: in}}, schema: {{n: bigint, customer: bigint}}}}
steps:
  named:
    from: in
    {before}
    lookup:
      memory: {{data: names}}
      on: {{id: customer}}
      add: {{name: string}}
      {more}
    {after}
sinks:
  out: {{from: named, memory: {{data: out}}}}
  {sinks}
"""


def pipeline(
    *more: str, before: str = "", after: str = "", sinks: str = "", parallelism: int = 1
) -> str:
    """Return the text of a pipeline, with more keys of the lookup."""
    return PIPELINE.format(
        more="\n      ".join(more),
        before=before,
        after=after,
        sinks=sinks,
        parallelism=parallelism,
    )


def ran(
    folder: Path,
    shelf: LookupTableData,
    text: str = pipeline(),
    rows: Sequence[MemoryEvent] | None = None,
    seed: int = 1,
    bounds: ChannelBounds | None = None,
) -> tuple[JobOutcome, InMemoryData]:
    """Return the outcome of a job."""
    outcome, memory, _ = counted(folder, shelf, text, rows, seed, bounds)
    return outcome, memory


def counted(
    folder: Path,
    shelf: LookupTableData,
    text: str = pipeline(),
    rows: Sequence[MemoryEvent] | None = None,
    seed: int = 1,
    bounds: ChannelBounds | None = None,
) -> tuple[JobOutcome, InMemoryData, PartCounts]:
    """Return the same, with the step's counters."""
    memory = InMemoryData({"in": {"a": rows or cut(ROWS, 3)}}, tables={"names": shelf})
    job = job_of(folder, text, memory, KernelExecutor(), bounds or ChannelBounds(rows=3))
    return run_simulated(job, seed), memory, job.collect_counts()["named"]


def out(memory: InMemoryData, name: str = "out") -> list[tuple[object, ...]]:
    """Return the output, in order."""
    return [row for frame in memory.outputs.get(name, []) for row in frame.rows()]


def named(row: int) -> str | None:
    """Return the name that is added to a row."""
    return None if row % 2 else f"n{row % 10}"


EXPECTED = [(n, n % 10, named(n)) for n in range(40)]


def backwards(number: int, keys: Sequence[Key]) -> float:
    """A table that answers earlier calls later."""
    return max(0.0, 10.0 - number)


def test_rows_are_emitted_in_order_whatever_the_response_times(
    tmp_path: Path,
) -> None:
    outcome, memory = ran(tmp_path, LookupTableData(NAMES, backwards, keys_per_call=1))
    assert outcome.failure is None
    assert out(memory) == EXPECTED


def test_unordered_rows_are_emitted_when_they_are_answered(tmp_path: Path) -> None:
    def slow_one(number: int, keys: Sequence[Key]) -> float:
        return 5.0 if keys[0] == (1,) else 0.01

    text = pipeline("ordered: false")
    shelf = LookupTableData(NAMES, slow_one, keys_per_call=1)
    outcome, memory = ran(tmp_path, shelf, text, rows=[ROWS.head(10)])
    assert outcome.failure is None
    assert sorted(out(memory)) == EXPECTED[:10]
    assert out(memory)[-1] == EXPECTED[1]


def test_without_order_no_row_passes_a_watermark(tmp_path: Path) -> None:
    text = """
    sources:
      in: {memory: {data: in}, schema: {id: bigint, at: timestamp}, event_time: at}
    steps:
      named:
        from: in
        lookup: {memory: {data: names}, on: [id], add: [name], ordered: false}
      counted: {from: named, window: {tumble: 1s}, aggregate: {n: count(*)}}
    sinks: {out: {from: counted, memory: {data: out}}}
    """
    times = pl.Series(range(0, 20_000_000, 500_000)).cast(pl.Datetime("us", "UTC"))
    rows = pl.DataFrame({"id": range(40), "at": times})
    for seed in range(5):
        outcome, memory = ran(tmp_path, LookupTableData(NAMES, backwards), text, cut(rows, 1), seed)
        assert outcome.failure is None
        assert [row[2] for row in out(memory)] == [2] * 20


@pytest.mark.parametrize("parallelism", [1, 3])
def test_no_more_calls_are_made_at_a_time_than_the_user_says(
    tmp_path: Path, parallelism: int
) -> None:
    shelf = LookupTableData(NAMES, lambda number, keys: 0.1, keys_per_call=1)
    text = pipeline("concurrency: 4", "ordered: false", parallelism=parallelism)
    outcome, memory = ran(tmp_path, shelf, text, rows=[ROWS])
    assert outcome.failure is None
    assert shelf.max_concurrent_calls <= 4
    assert sorted(out(memory)) == EXPECTED


def test_a_key_is_requested_once_per_batch_and_while_in_flight(tmp_path: Path) -> None:
    shelf = LookupTableData(NAMES, lambda number, keys: 1.0)
    rows: list[MemoryEvent] = [ROWS.head(20), 0.1, ROWS.tail(20)]
    _, memory = ran(tmp_path, shelf, rows=rows, bounds=ChannelBounds(rows=100))
    assert [sorted(call) for call in shelf.calls] == [[(i,) for i in range(10)]]
    assert out(memory) == EXPECTED


def test_an_expired_cache_entry_is_requested_again(tmp_path: Path) -> None:
    text = pipeline("cache: {rows: 100, ttl: 5s}")
    rows: list[MemoryEvent] = [ROWS.head(10), 1.0, ROWS.head(10), 5.0, ROWS.head(10)]
    shelf = LookupTableData(NAMES)
    _, memory = ran(tmp_path, shelf, text, rows, bounds=ChannelBounds(rows=100))
    assert len(shelf.calls) == 2
    assert out(memory) == EXPECTED[:10] * 3


def test_the_cache_evicts_the_least_recently_used_keys(
    tmp_path: Path,
) -> None:
    text = pipeline("cache: {rows: 2, ttl: 1h}")
    at = [0, 1, 0, 2, 0, 1]
    rows = [pl.DataFrame({"n": [i], "customer": [i]}) for i in at]
    shelf = LookupTableData(NAMES)
    ran(tmp_path, shelf, text, [happening for row in rows for happening in (row, 1.0)])
    assert shelf.calls == [[(0,)], [(1,)], [(2,)], [(1,)]]


def test_a_call_that_takes_too_long_is_broken_off_and_tried_again(tmp_path: Path) -> None:
    shelf = LookupTableData(NAMES, lambda number, keys: 60.0 if number < 2 else 0.0)
    text = pipeline("timeout: 2s", "retries: 2")
    outcome, memory = ran(tmp_path, shelf, text, [ROWS])
    assert outcome.failure is None
    assert shelf.cancelled_calls == 2
    assert out(memory) == EXPECTED


def test_a_call_that_never_succeeds_fails_the_job_and_names_the_step(tmp_path: Path) -> None:
    shelf = LookupTableData(NAMES, lambda number, keys: 60.0)
    outcome, memory = ran(tmp_path, shelf, pipeline("timeout: 2s", "retries: 1"), [ROWS])
    assert outcome.failure is not None
    assert outcome.failure.message == "no answer within 2s (lookup of id = 0)"
    assert outcome.failure.step == "named"
    assert shelf.cancelled_calls == 2
    assert shelf.close_count == 1
    assert out(memory) == []


def test_a_call_that_never_succeeds_is_reported_though_many_keys_have_not_been_tried(
    tmp_path: Path,
) -> None:
    shelf = LookupTableData(NAMES, lambda number, keys: 60.0, keys_per_call=1)
    text = pipeline("timeout: 2s", "retries: 1", "concurrency: 2")
    outcome, _ = ran(tmp_path, shelf, text, [ROWS])
    assert outcome.failure is not None
    assert len(shelf.calls) <= 8  # two keys twice, and others while these wait for their retries


def test_rows_of_a_call_that_fails_go_where_the_user_says(tmp_path: Path) -> None:
    def fails(number: int, keys: Sequence[Key]) -> ConnectorError | None:
        return ConnectorError("the server is on fire") if (4,) in keys else None

    text = pipeline(
        "retries: 2",
        after="on_error: {to: bad}",
        sinks="failed: {from: bad, memory: {data: bad}}",
    )
    shelf = LookupTableData(NAMES, find_failure=fails, keys_per_call=1)
    outcome, memory, counts = counted(tmp_path, shelf, text)
    assert outcome.failure is None
    assert out(memory) == [row for row in EXPECTED if row[1] != 4]
    bad = pl.concat(memory.outputs["bad"])
    assert bad["error"].unique().to_list() == ["the server is on fire"]
    assert bad["step"].unique().to_list() == ["named"]
    assert bad["raw"].to_list() == [f'{{"n":{n},"customer":4}}' for n in (4, 14, 24, 34)]
    assert counts.bad_rows == 4
    assert counts.rows_out == 36


def test_rows_of_a_call_that_fails_can_be_left_out_and_counted(tmp_path: Path) -> None:
    def fails(number: int, keys: Sequence[Key]) -> ConnectorError | None:
        return ConnectorError("no", final=True)

    shelf = LookupTableData(NAMES, find_failure=fails)
    text = pipeline(after="on_error: skip")
    outcome, memory, counts = counted(tmp_path, shelf, text, [ROWS], bounds=ChannelBounds(rows=100))
    assert outcome.failure is None
    assert len(shelf.calls) == 1, "what is final is not tried again"
    assert out(memory) == []
    assert counts.bad_rows == 40


def test_rows_without_a_match_are_dropped_where_the_user_says_so(tmp_path: Path) -> None:
    _, memory, counts = counted(tmp_path, LookupTableData(NAMES), pipeline("on_miss: drop"))
    assert out(memory) == [row for row in EXPECTED if row[2]]
    assert (counts.rows_in, counts.rows_out) == (40, 20)


def test_rows_without_a_match_go_to_a_stream_as_they_came(tmp_path: Path) -> None:
    text = pipeline("on_miss: {to: none}", sinks="no: {from: none, memory: {data: none}}")
    _, memory = ran(tmp_path, LookupTableData(NAMES), text)
    assert out(memory) == [row for row in EXPECTED if row[2]]
    assert out(memory, "none") == [row[:2] for row in EXPECTED if not row[2]]


def test_a_row_without_a_match_fails_the_job_where_the_user_says_so(tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, LookupTableData(NAMES), pipeline("on_miss: fail"))
    assert outcome.failure is not None
    assert outcome.failure.message == "the table has no row for id = 1"


def test_requests_are_counted(tmp_path: Path) -> None:
    def fails(number: int, keys: Sequence[Key]) -> ConnectorError | None:
        return ConnectorError("no") if number == 1 or (8,) in keys else None

    shelf = LookupTableData(NAMES, find_failure=fails, keys_per_call=3)
    text = pipeline("retries: 1", "cache: {rows: 100, ttl: 1h}", after="on_error: skip")
    rows: list[MemoryEvent] = [ROWS.head(10), 10.0, ROWS.head(5)]
    *_, counts = counted(tmp_path, shelf, text, rows, bounds=ChannelBounds(rows=100))
    # Nine keys in three calls: one of the calls failed once; the last, of two keys, failed twice.
    assert counts.lookup == LookupStatistics(keys=15, known=5, calls=6, failures=1, missed=6)


def test_null_is_a_miss_without_a_request(tmp_path: Path) -> None:
    rows = pl.DataFrame({"n": [1, 2], "customer": [None, None]}, schema=ROWS.schema)
    for ordered in ("true", "false"):
        shelf = LookupTableData(NAMES)
        _, memory = ran(tmp_path, shelf, pipeline(f"ordered: {ordered}"), [rows])
        assert out(memory) == [(1, None, None), (2, None, None)]
        assert shelf.calls in ([], [[]])


def test_what_stands_before_a_lookup_is_done_first_and_what_stands_after_it_last(
    tmp_path: Path,
) -> None:
    text = pipeline(before="where: n < 6", after='select: {n: n + 1, who: "upper(name)"}')
    shelf = LookupTableData(NAMES)
    _, memory, counts = counted(tmp_path, shelf, text)
    assert out(memory) == [(1, "N0"), (2, None), (3, "N2"), (4, None), (5, "N4"), (6, None)]
    assert sum(map(len, shelf.calls)) == 6
    assert counts.rows_in == 40
    assert counts.rows_out == 6


def test_a_table_with_two_rows_for_a_key_is_reported(tmp_path: Path) -> None:
    outcome, _ = ran(
        tmp_path, LookupTableData(pl.concat([NAMES, NAMES.tail(1)])), pipeline(), [ROWS]
    )
    assert outcome.failure is None, "nobody asks for that key"
    outcome, _ = ran(
        tmp_path, LookupTableData(pl.concat([NAMES, NAMES.head(1)])), pipeline(), [ROWS]
    )
    assert outcome.failure is not None
    assert outcome.failure.message.startswith("the table has several rows for id = 0")
