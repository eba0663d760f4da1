"""The order of rows is kept through steps that make several rows of one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from headrace.core.types.elements import DELETE, HIDDEN_COLUMNS
from tests.support.runtime.memory_pipelines import cut, simulated

TEXT = """
    settings: {{parallelism: {parallelism}}}
    sources:
      rows:
        memory: {{data: in}}
        schema: {{k: bigint, items: array<array<bigint>>, at: timestamp}}
        event_time: at
        watermark: {{delay: 1h}}
    steps:
      lists: {{from: rows, explode: {{list: items}}, select: [k, list]}}
      items: {{from: lists, explode: {{item: list}}, select: [k, item]}}
      twice:
        from: items
        map: {{python: "twice.py:twice", mode: row, returns: {{k: bigint, item: bigint}}}}
      all:
        from: twice
        key: k
        aggregate: {{all: collect_list(item), head: first(item), tail: last(item)}}
      best:
        from: twice
        key: k
        top: {{n: 2, by: item desc}}
    sinks:
      out: {{from: all, memory: {{data: out}}}}
      best_out: {{from: best, memory: {{data: best}}}}
"""
TWICE = """
def twice(row):
    return [row, {**row, "item": row["item"] + 100}]
"""
SCHEMA = {
    "k": pl.Int64(),
    "items": pl.List(pl.List(pl.Int64())),
    "at": pl.Datetime("us", "UTC"),
}
Row = tuple[int, list[list[int]], int]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3),
        st.integers(0, 2),
    ),
    max_size=8,
)


def frame(rows: list[Row]) -> pl.DataFrame:
    """Return the rows, with their seconds as times."""
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    timed = [(k, items, begin + timedelta(seconds=at)) for k, items, at in rows]
    return pl.DataFrame(timed, schema=SCHEMA, orient="row")


def last_rows(memory: InMemoryData, name: str, key: list[str]) -> dict[Any, tuple[Any, ...]]:
    """Return the last row of each key."""
    found: dict[Any, tuple[Any, ...]] = {}
    for out in memory.outputs.get(name, []):
        assert not out[DELETE].any()
        keys = out.select(key).rows()
        found |= dict(zip(keys, out.drop(HIDDEN_COLUMNS, strict=False).rows(), strict=True))
    return found


@pytest.mark.parametrize("parallelism", [1, 3])
@settings(max_examples=15, deadline=None)
@given(
    splits=st.lists(ROWS, min_size=1, max_size=2), size=st.integers(1, 9), seed=st.integers(0, 9)
)
def test_lists_are_collected_in_the_order_of_the_rows_they_come_from(
    tmp_path_factory: pytest.TempPathFactory,
    parallelism: int,
    splits: list[list[Row]],
    size: int,
    seed: int,
) -> None:
    folder: Path = tmp_path_factory.mktemp("order")
    (folder / "twice.py").write_text(TWICE)
    memory = InMemoryData(
        {"in": {str(at): cut(frame(rows), size) for at, rows in enumerate(splits)}}
    )
    outcome = simulated(folder, TEXT.format(parallelism=parallelism), memory, seed)
    assert outcome.failure is None, outcome.failure
    placed = sorted(
        (at, split, number, k, items)
        for split, rows in enumerate(splits)
        for number, (k, items, at) in enumerate(rows)
    )
    lists: dict[int, list[int]] = {}
    for *_, k, items in placed:
        made = [value for each in items for item in each for value in (item, item + 100)]
        if made:
            lists.setdefault(k, []).extend(made)
    wanted = {(k,): (k, all, all[0], all[-1]) for k, all in lists.items()}
    assert last_rows(memory, "out", ["k"]) == wanted
    best = {
        (k, rank): (k, item, rank)
        for k, all in lists.items()
        for rank, item in enumerate(sorted(all, reverse=True)[:2], 1)
    }
    assert last_rows(memory, "best", ["k", "rank"]) == best
