"""Stateless steps yield what SQL says, however rows are cut into batches and distributed."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from tests.support.runtime.memory_pipelines import rows, simulated
from tests.support.runtime.random_stateless_steps import CODE, Drawn, Stream, pipelines
from tests.support.runtime.recut_sources import CUTS, Cut, sizes

Row: TypeAlias = tuple[int, int | None, str | None, list[int | None] | None]
Input: TypeAlias = dict[str, list[Row]]

SCHEMA = pl.Schema(
    {"id": pl.Int64(), "n": pl.Int64(), "s": pl.String(), "tags": pl.List(pl.Int64())}
)
numbers = st.one_of(st.none(), st.integers(-3, 9))
ROWS = st.lists(
    st.tuples(
        st.integers(0, 50),
        numbers,
        st.sampled_from([None, "", "a", "bc", "zoë"]),
        st.one_of(st.none(), st.lists(numbers, max_size=3)),
    ),
    max_size=25,
)


def memory_of(data: Input, splits: int, cut: Cut, chance: random.Random) -> InMemoryData:
    """Distribute rows over splits, each in chunks."""
    inputs = {}
    for name, all_rows in data.items():
        parts = [all_rows[at::splits] for at in range(splits)]
        inputs[name] = {f"split{at}": _chunks(part, cut, chance) for at, part in enumerate(parts)}
    return InMemoryData(inputs)


def _chunks(part: list[Row], cut: Cut, chance: random.Random) -> list[pl.DataFrame]:
    frame, chunks, at = pl.DataFrame(part, schema=SCHEMA, orient="row"), [], 0
    for size in sizes(frame.height, cut, chance):
        chunks.append(frame.slice(at, size))
        at += size
    return chunks


def counted(found: Iterable[Sequence[object]]) -> Counter[tuple[object, ...]]:
    """Return the rows as a multiset."""
    return Counter(tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in found)


def asked(data: Input, streams: Iterable[Stream]) -> dict[str, Counter[tuple[object, ...]]]:
    """Return the rows of streams as computed by DuckDB, with columns sorted by name."""
    found = {}
    with duckdb.connect() as database:
        for name in ("a", "b"):
            database.execute(f"CREATE TABLE {name} (id BIGINT, n BIGINT, s VARCHAR, tags BIGINT[])")
            if data.get(name):
                database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", data[name])
        for stream in streams:
            listed = ", ".join(sorted(stream.columns))
            answer = database.execute(f"SELECT {listed} FROM ({stream.sql})").fetchall()
            found[stream.name] = counted(answer)
    return found


def committed(
    memory: InMemoryData, streams: Iterable[Stream]
) -> dict[str, Counter[tuple[object, ...]]]:
    """Return the rows that reached the sinks of streams, with columns sorted by name."""
    return {
        stream.name: counted(
            row
            for frame in memory.outputs.get(stream.name, [])
            for row in frame.select(sorted(stream.columns)).rows()
        )
        for stream in streams
    }


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    pipelines(),
    st.fixed_dictionaries({"a": ROWS, "b": ROWS}),
    st.integers(1, 4),
    st.sampled_from(CUTS),
    st.integers(0, 2**32),
)
def test_any_cut_of_the_input_gives_the_rows_that_sql_gives(
    drawn: Drawn, data: Input, splits: int, cut: Cut, seed: int
) -> None:
    data = {name: data[name] for name in drawn.sources}
    truth = asked(data, drawn.sinks)
    whole: tuple[int, Cut, int] = (1, "all", 1)
    for split, how, parallelism in (whole, (splits, cut, 1), (splits, cut, 3)):
        memory = memory_of(data, split, how, random.Random(seed))
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "f.py").write_text(CODE)
            outcome = simulated(Path(folder), drawn.text(parallelism), memory, seed)
        assert outcome.failure is None
        assert not memory.prepared_batches
        assert committed(memory, drawn.sinks) == truth, (split, how, parallelism)


def test_later_steps_accept_that_no_row_is_left(tmp_path: Path) -> None:
    text = """
sources: {a: {memory: {data: a}, schema: {id: bigint}}}
steps:
  none: {from: a, where: id < 0, with: {x: id + 1}}
  more: {from: none, with: {y: x + x}}
  parted: {from: more, route: {low: x + y < 1}}
sinks:
  low: {from: parted.low, memory: {data: low}}
  rest: {from: parted.else, memory: {data: rest}}
"""
    memory = InMemoryData({"a": {"0": [pl.DataFrame({"id": [1, 2]})]}})
    assert simulated(tmp_path, text, memory, 0).failure is None
    assert not memory.outputs


def test_a_projection_makes_no_column_that_nobody_needs(tmp_path: Path) -> None:
    text = """
sources: {a: {memory: {data: a}, schema: {id: bigint, s: string, n: bigint}}}
steps:
  fewer: {from: a, drop: n, parallelism: 2}
  one: {from: fewer, select: {id: id}}
  none: {from: fewer, select: {x: 1}}
sinks:
  out: {from: one, memory: {data: one}}
  more: {from: none, memory: {data: none}}
"""
    memory = InMemoryData(
        {"a": {"0": [pl.DataFrame({"id": [1, 2], "s": ["a", "b"], "n": [3, 4]})]}}
    )
    assert simulated(tmp_path, text, memory, 0).failure is None
    assert rows(memory, "one") == {(1,): 1, (2,): 1}
    assert rows(memory, "none") == {(1,): 2}
