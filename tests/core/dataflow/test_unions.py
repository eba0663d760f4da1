"""Unions of streams that carry different columns: those that other readers need of them."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemoryEvent
from tests.support.runtime.memory_pipelines import rows, simulated

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PIPELINE = """
settings: {{parallelism: 2}}
sources:
  left: {{memory: {{data: left}}, schema: {{id: bigint, at: timestamp}}, event_time: at}}
  right: {{memory: {{data: right}}, schema: {{id: bigint, at: timestamp}}{time}}}
steps:
  newest: {{from: left, dedup: {{key: [id], keep: first{order}}}}}
  both: {{from: [left, right]}}
  counts: {{from: both, key: id, aggregate: {{n: count(*)}}}}
  count: {{from: both, aggregate: {{n: count(*)}}}}
sinks:
  newest_out: {{from: newest, memory: {{data: newest}}}}
  counts_out: {{from: counts, memory: {{data: counts}}}}
  count_out: {{from: count, memory: {{data: count}}}}
"""


@pytest.mark.parametrize(
    ("time", "order"),
    [(", event_time: at", ", order: event_time"), ("", "")],
    ids=["row order, which a reader of one input needs", "event time, which one input has"],
)
@pytest.mark.parametrize("seed", range(2, 4))
def test_rows_of_all_inputs_are_exchanged(tmp_path: Path, time: str, order: str, seed: int) -> None:
    data = {"id": [*range(8)], "at": [NOON] * 8}
    frame = pl.DataFrame(data, {"id": pl.Int64, "at": pl.Datetime("us", "UTC")})
    events: list[MemoryEvent] = [*(frame[at : at + 1] for at in range(8))]
    memory = InMemoryData({name: {"0": events * 2} for name in ("left", "right")})
    text = PIPELINE.format(time=time, order=order)
    assert simulated(tmp_path, text, memory, seed).failure is None
    assert (7, 4) in {row[:2] for row in rows(memory, "counts")}
    assert 32 in {row[0] for row in rows(memory, "count")}
