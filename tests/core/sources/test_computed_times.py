"""Event times as expressions: as good as a column with the same times, in a source or a step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from headrace.core.api.window_classes import EPOCH
from headrace.core.plan import nodes
from headrace.core.plan.explain import explain
from headrace.core.testing.reference.interpreter import interpret
from tests.support.plans import plan_of, said
from tests.support.runtime.memory_pipelines import cut, simulated

PIPELINE = """
    settings: {{parallelism: {parallelism}}}
    sources:
      rows:
        memory: {{data: in}}
        schema: {{k: bigint, ms: bigint, at: timestamp}}
        on_error: {{to: bad}}
        {source}
    steps:
      {steps}
      counts:
        from: {read}
        key: k
        window: {{tumble: 10s, late_to: late}}
        aggregate: {{n: count(*), last: max(ms)}}
    sinks:
      out: {{from: counts, memory: {{data: out}}}}
      late_out: {{from: late, memory: {{data: late}}}}
      bad_out: {{from: bad, memory: {{data: bad}}}}
"""
BY_COLUMN = {
    "source": "event_time: at\n        watermark: {delay: 3s}",
    "steps": "picked: {from: rows, where: k < 2, select: [k, ms]}",
    "read": "picked",
}
BY_EXPRESSION = BY_COLUMN | {
    "source": "event_time: timestamp_millis(ms)\n        watermark: {delay: 3s}"
}
BY_STEP = BY_COLUMN | {
    "source": "",
    "steps": "few: {from: rows, where: k < 2, with: {s: ms / 1000, k: k, x: ms}, drop: [ms, at]}\n"
    "      picked: {from: few, select: {k: k, ms: x, t: timestamp_millis(x)}, event_time: t,"
    " watermark: {delay: 3s}}",
}
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60) | st.none()), max_size=12)
Rows = list[tuple[int, int | None]]


def run(
    folder: Path, form: dict[str, str], splits: list[Rows], size: int, parallelism: int, seed: int
) -> dict[str, Counter[tuple[object, ...]]]:
    """Return the rows of every output."""
    frames = {}
    for number, rows in enumerate(splits):
        ms = [None if second is None else second * 1000 for _, second in rows]
        frame = pl.DataFrame(
            {"k": [k for k, _ in rows], "ms": ms}, schema={"k": pl.Int64, "ms": pl.Int64}
        )
        frame = frame.with_columns((pl.col("ms") * 1000).cast(pl.Datetime("us", "UTC")).alias("at"))
        frames[f"s{number}"] = cut(frame, size)
    memory = InMemoryData({"in": frames})
    simulated(folder, PIPELINE.format(parallelism=parallelism, **form), memory, seed)
    return {
        name: Counter(
            row for part in memory.outputs.get(name, []) for row in part.select(columns).rows()
        )
        for name, columns in (
            ("out", ["k", "window_start", "n", "last"]),
            ("late", ["k", "ms"]),
            ("bad", ["source"]),
        )
    }


@settings(max_examples=25, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(1, 4), st.just(1), st.integers(0, 9))
def test_computed_times_give_the_windows_and_late_rows_of_a_column(
    tmp_path_factory: pytest.TempPathFactory,
    splits: list[Rows],
    size: int,
    parallelism: int,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("times")
    wanted = run(folder, BY_COLUMN, splits, size, parallelism, seed)
    assert run(folder, BY_EXPRESSION, splits, size, parallelism, seed) == wanted
    # Rows that a step drops need no event time: they neither move the watermark nor are bad.
    picked = [[row for row in rows if row[0] < 2] for rows in splits]
    wanted = run(folder, BY_COLUMN, picked, size, 1, seed)
    found = run(folder, BY_STEP, picked, size, 1, seed)
    assert found == wanted
    assert run(folder, BY_STEP, splits, size, 1, seed)["bad"] == wanted["bad"]


def test_a_watermark_may_be_an_expression(tmp_path: Path) -> None:
    marked = BY_COLUMN | {
        "source": "event_time: timestamp_millis(ms)\n"
        "        watermark: {from: timestamp_millis(ms - 3000)}"
    }
    splits: list[Rows] = [[(0, 1), (0, 30), (0, 2), (1, 40)]]
    assert run(tmp_path, marked, splits, 1, 1, 0)["late"] == {(0, 2000): 1}


SOURCE = """
name: t
sources:
  a: {{files: {{path: x}}, schema: {{t: string, ms: bigint, i: array<int>, at: timestamp}}{more}}}
steps:
  {steps}
sinks: {{o: {{from: s, console: {{}}}}}}
"""


@pytest.mark.parametrize(
    ("more", "steps", "message"),
    [
        (
            ", event_time: upper(t)",
            "s: {from: a, where: ms > 1}",
            "got an expression of type string",
        ),
        (
            ", event_time: current_timestamp()",
            "s: {from: a, where: ms > 1}",
            "another one after each",
        ),
        (", event_time: timestamp_millis(mz)", "s: {from: a, where: ms > 1}", 'column "mz"'),
        (
            ", event_time: at, watermark: {from: ms + 1}",
            "s: {from: a, where: ms > 1}",
            "watermark: wanted a timestamp, got an expression of type bigint",
        ),
        ("", "s: {from: a, explode: {x: i}, event_time: at}", "explode is between the source and"),
        (
            "",
            "b: {from: a, key: t, aggregate: {at: max(at)}}\n  s: {from: b, event_time: at}",
            "event_time of changes needs the watermarks of their sources",
        ),
        (", event_time: at", "s: {from: a, event_time: at}", 'have the event time of source "a"'),
        (
            "",
            "b: {from: a, event_time: at}\n  s: {from: b, event_time: at}",
            'have the event time of step "b"',
        ),
        (
            "",
            "b: {from: a, where: ms > 1}\n  s: {from: a, event_time: at}",
            '"a" is read by "b" and "s"',
        ),
        (
            "",
            "b: {from: a, route: {x: ms > 1}}\n  s: {from: b.x, event_time: at}",
            '"b.x" is not the stream of a source',
        ),
        ("", "s: {from: a, where: ms > 1, watermark: {delay: 1s}}", "watermark"),
        (
            "",
            "s: {from: a, event_time: at, watermark: {python: 'w.py:f'}}",
            "a function is called with the rows of a source",
        ),
        (
            "",
            "s: {from: a, where: at < current_timestamp(), event_time: at}",
            "depends on current_timestamp()",
        ),
        ("", "s: {from: a, event_time: ms}", "event_time: wanted a timestamp"),
    ],
)
def test_what_cannot_be_an_event_time_is_refused(
    tmp_path: Path, more: str, steps: str, message: str
) -> None:
    lines = said(tmp_path, SOURCE.format(more=more, steps=steps))
    assert any(message in line for line in lines), lines


def test_the_columns_of_the_expressions_are_read_and_the_plan_says_them(tmp_path: Path) -> None:
    steps = "b: {from: a, where: i is not null}\n  s: {from: b, select: {n: '1'}, event_time: at}"
    text = SOURCE.format(
        more="", steps=steps.replace("{n: '1'}", "{n: '1', at: timestamp_millis(ms)}")
    )
    plan = plan_of(tmp_path, text)
    source = plan.part("a")
    assert isinstance(source, nodes.Source)
    assert source.decoded_columns == ("ms", "i")
    assert "    event time at of s\n" in explain(plan)
    assert all(plan.streams[name].has_event_time for name in ("a", "b", "s"))


def test_the_interpreter_has_the_same_times(tmp_path: Path) -> None:
    text = SOURCE.format(
        more=", event_time: timestamp_millis(ms)", steps="s: {from: a, select: [ms]}"
    )
    rows = [{"t": None, "ms": ms, "i": None, "at": EPOCH} for ms in (5, None, 7)]
    found = interpret(plan_of(tmp_path, text), {"a": [rows]})["s"]
    assert [row.time for row in found] == [5000, 7000]


def test_extend_adds_columns_after_an_aggregate(tmp_path: Path) -> None:
    steps = (
        "s: {from: a, key: t, aggregate: {n: count(*)}, having: n > 1,"
        " extend: {m: n + 1}, drop: [n]}"
    )
    plan = plan_of(tmp_path, SOURCE.format(more="", steps=steps))
    assert str(plan.streams["s"].schema) == "t string, m bigint not null"
