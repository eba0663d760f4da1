"""Values that cannot be computed again: a removed row repeats those with which it was added.

A function returns a new number for each call, a lookup another answer, the clock another time. An
aggregate over the rows that have them must be the same as that of the final rows themselves.

Thousands more: `python -m tests.core.operators.changelog.test_stored_values 5000`;
it prints the seed that fails.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE
from tests.support.reference.random_pipelines import SCHEMA, SPREAD_S
from tests.support.runtime import expected_rows
from tests.support.runtime.committed_output import ended
from tests.support.runtime.crashing_jobs import FlakyMemory
from tests.support.runtime.memory_pipelines import bounds_of, job_of, run_simulated
from tests.support.user_code import numbering

CODE = Path(numbering.__file__)
RETURNS = "returns: {k: bigint, s: string, n: bigint}"
VALUES = {
    "map": f"map: {{python: '{CODE}:numbered', mode: row, {RETURNS}}}",
    "map in batches": f"map: {{python: '{CODE}:numbered_batch', {RETURNS}}}",
    "lookup": "lookup: {memory: {data: t}, on: {s: s}, add: {n: bigint}}",
    "lookup without misses": (
        "lookup: {memory: {data: t}, on: {s: s}, add: {n: bigint}, on_miss: drop}"
    ),
    "clock": "with: {n: unix_micros(now())}",
}
TABLES = {
    "a table": "  some: {from: a, where: 'v is not null'}\n",
    "a dedup": "  some: {from: a, dedup: {key: k, keep: last}}\n",
    "a join by its key": (
        "  last: {from: b, dedup: {key: v, keep: last}}\n"
        "  some: {join: {left: a, right: {from: last, as: c}, on: a.v = c.v, type: left}, "
        "select: {k: a.k, s: c.s, v: a.v}}\n"
    ),
}
SOURCE = f"event_time: at, watermark: {{delay: {SPREAD_S}s}}"


@st.composite
def pipelines(draw: st.DrawFn) -> str:
    """Draw a pipeline of rows with such values, `rows`, and an aggregate of them, `out`."""
    table, value = draw(st.sampled_from([*TABLES])), draw(st.sampled_from([*VALUES.values()]))
    change = "table: {key: k}" if table != "a dedup" else ""
    schema = f"{SCHEMA[:-1]}, _change: string}}, on_error: skip, {change}" if change else SCHEMA
    return (
        f"sources:\n  a: {{memory: {{data: left}}, schema: {schema}, {SOURCE}}}\n"
        f"  b: {{memory: {{data: right}}, schema: {SCHEMA}, {SOURCE}}}\n"
        f"steps:\n{TABLES[table]}  valued: {{from: some, {value}}}\n"
        "  mine: {from: valued, select: [k, s, n]}\n"
        "  step: {from: mine, key: s, aggregate: {c: count(*), most: max(n), total: sum(n)}}\n"
        "  others: {from: b, where: v > 2}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
        "  rows: {from: mine, memory: {data: rows}}\n"
        "  more: {from: others, memory: {data: more}}\n"
    )


class ChangingTable(LookupTableData):
    """A table with other values at each call, and sometimes without a row."""

    def __init__(self) -> None:
        rows = pl.DataFrame({"s": ["", "a", "größe"], "n": [0, 100, 200]})
        super().__init__(rows, delay_s=self._change)
        self._all = rows

    def _change(self, number: int, keys: object) -> float:
        rows = self._all.with_columns(pl.col("n") + number)
        self.rows = rows[: 3 - number % 2]
        return 0.0


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_whatever_happens_removed_rows_have_the_values_of_added_ones(data: st.DataObject) -> None:
    survive(data)


def survive(data: st.DataObject) -> None:
    """Draw a pipeline, rows, and what happens to it; run to the end, and compare."""
    text, sides = expected_rows.of_two_inputs(data, pipelines())
    full = expected_rows.without_empty(sides)
    chance = random.Random(data.draw(st.integers(0, 9999)))
    memory = FlakyMemory(
        {
            expected_rows.DATA[name]: expected_rows.paced(splits, chance)
            for name, splits in full.items()
        },
        tables={"t": ChangingTable()},
    )
    text = expected_rows.in_parallel(data, text)
    plan, _ = expected_rows.survived(text, memory, chance, chance.randrange(6))
    rows: dict[Any, list[int | None]] = {}
    for s, n in final_rows(plan, memory):
        rows.setdefault(s, []).append(n)
    wanted = Counter[Any]()
    for s, numbers in rows.items():
        known = [n for n in numbers if n is not None]
        wanted[s, len(numbers), max(known, default=None), sum(known) if known else None] += 1
    stream = plan.streams["step"]
    assert ended(memory, stream.kind, stream.schema.names) == wanted


def final_rows(plan: nodes.Plan, memory: InMemoryData) -> list[tuple[str | None, int | None]]:
    """Return the last row of each key that was written."""
    sink = plan.part("rows")
    assert isinstance(sink, nodes.Sink)
    kind = plan.streams[sink.input].kind
    assert isinstance(kind, nodes.Upsert)
    assert kind.key == ("k",)
    table: dict[object, tuple[str | None, int | None]] = {}
    for frame in memory.outputs.get("rows", []):
        for k, s, n, deleted in frame.select("k", "s", "n", DELETE).rows():
            table.pop(k, None)
            if not deleted:
                table[k] = s, n
    return [*table.values()]


@pytest.mark.parametrize(
    ("function", "returns", "message"),
    [
        ("other_key", RETURNS, "numbering.py:other_key changed the key of a row: k"),
        ("twice", RETURNS, "numbering.py:twice returned several rows for a row of a table"),
        (
            "numbered",
            RETURNS.replace("k: bigint", "k: int"),
            'numbering.py:numbered returns the key "k" as Int32, but in its rows it is Int64',
        ),
    ],
)
def test_a_function_must_return_the_key_of_a_row(
    tmp_path: Path, function: str, returns: str, message: str
) -> None:
    text = (
        f"sources:\n  a: {{memory: {{data: in}}, schema: {SCHEMA}}}\n"
        "steps:\n  last: {from: a, dedup: {key: k, keep: last}}\n"
        f"  step: {{from: last, map: {{python: '{CODE}:{function}', mode: row, {returns}}}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    types: dict[str, pl.DataType] = {"k": pl.Int64(), "s": pl.String(), "v": pl.Int64()}
    types |= {"x": pl.Float64(), "at": pl.Datetime("us", "UTC")}
    rows = pl.DataFrame([(1, "a", 1, 1.0, None)], types, orient="row")
    memory = InMemoryData({"in": {"0": [rows]}})
    outcome = run_simulated(job_of(tmp_path, text, memory, KernelExecutor(), bounds_of(1)), 1)
    assert message in str(outcome.failure)


if __name__ == "__main__":
    expected_rows.more(survive, sys.argv[1:])
