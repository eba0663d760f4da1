"""Samples of bad and late rows: which rows there are, and how much of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.statistics import collect_rejected_rows
from headrace.core.operators.operator import FailedRow
from headrace.core.operators.rejected_rows import (
    MAX_REASON,
    MAX_SAMPLES,
    MAX_TEXT,
    RejectedRowSampler,
)
from tests.support.runtime.memory_pipelines import job_of, run_simulated

TEXT = """
sources:
  rows:
    memory: {data: rows}
    schema: {id: bigint not null, k: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 0s}
    on_error: skip
steps:
  checked:
    from: rows
    map: {python: "f.py:f", returns: {id: bigint, k: bigint, at: timestamp}, mode: row}
    on_error: skip
  totals: {from: checked, key: k, window: {tumble: 10s}, aggregate: {n: count(*)}}
sinks: {out: {from: totals, memory: {data: out}}}
settings: {parallelism: PARALLELISM, key_groups: 8}
"""
CODE = "def f(row):\n    if row['id'] == 3:\n        raise ValueError('three')\n    return row\n"


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_bad_records_failed_rows_and_late_rows_of_a_job(tmp_path: Path, parallelism: int) -> None:
    (tmp_path / "f.py").write_text(CODE)
    first = pl.DataFrame({"id": [1, None, 3], "k": [1, 2, 3], "at": [at(0), at(1), at(2)]})
    later = pl.DataFrame({"id": [4], "k": [1], "at": [at(30)]})
    late = pl.DataFrame({"id": [5], "k": [1], "at": [at(3)]})
    events: list[MemoryEvent] = [first, later, 5.0, late]
    data = {str(split): events for split in range(parallelism)}
    text = TEXT.replace("PARALLELISM", str(parallelism))
    memory = InMemoryData({"rows": data})
    job = job_of(tmp_path, text, memory, KernelExecutor(), ChannelBounds())
    assert run_simulated(job, 1).failure is None
    parts: dict[str, list[dict[str, Any]]] = collect_rejected_rows(job)["parts"]
    assert {part: len(rows) for part, rows in parts.items()} == dict.fromkeys(
        ("rows", "checked", "totals"), parallelism
    )
    record, failed, old = (parts[part][0] for part in ("rows", "checked", "totals"))
    assert (record["kind"], record["split"] in data, record["watermark"]) == ("bad", True, None)
    assert '"k":2' in record["text"]
    assert (failed["kind"], '"id":3' in failed["text"]) == ("bad", True)
    assert "three" in failed["error"]
    assert (old["kind"], '"id":5' in old["text"], old["error"]) == ("late", True, "")
    assert old["watermark"] == "2026-01-01T00:00:30.000Z"


def test_a_second_has_five_rows_and_the_newest_remain() -> None:
    now_us = 0
    sampler = RejectedRowSampler(lambda: now_us)
    for second in range(3):
        now_us = second * 1_000_000
        for size in (3, 4, 100):
            sampler.add_failed_rows([FailedRow(f"{second}", {"x": at}) for at in range(size)])
    assert [(row.error, row.text) for row in sampler.rows] == [
        ("2", f'{{"x":{x}}}') for x in (0, 1, 2, 0, 1)
    ]
    assert len(sampler.rows) == MAX_SAMPLES


def test_a_clock_that_is_set_back_ends_no_samples() -> None:
    now_us = 10_000_000
    sampler = RejectedRowSampler(lambda: now_us)
    sampler.add_failed_rows([FailedRow("before", {})] * MAX_SAMPLES)
    now_us = 1
    sampler.add_failed_rows([FailedRow("after", {})])
    assert sampler.rows[-1].error == "after"


def test_long_rows_and_errors_are_cut() -> None:
    sampler = RejectedRowSampler(lambda: 0)
    sampler.add_failed_rows([FailedRow("e" * 10**6, {"x": "y" * 10**6})])
    (row,) = sampler.rows
    assert (len(row.text), row.length, len(row.error)) == (MAX_TEXT, 10**6 + 8, MAX_REASON)


def test_values_that_python_lacks_are_shown_as_text() -> None:
    sampler = RejectedRowSampler(lambda: 0)
    late = pl.DataFrame({"at": [2**62], "x": [b"\xff"]}).with_columns(
        pl.col("at").cast(pl.Datetime("us")), __time=pl.lit(1)
    )
    sampler.add_late_rows(late, 5)
    (row,) = sampler.rows
    assert row.watermark_us == 5
    assert "__time" not in row.text
    assert "cannot be shown" in row.text
