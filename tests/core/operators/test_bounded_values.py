"""Rows with values above `settings.max_value` fail as `on_error` says, whatever the clause."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.operators.bounded_values import BoundedProjectionOperator, BoundedRows
from headrace.core.plan import nodes
from headrace.core.plan.growing_operations import is_growing_operation
from headrace.core.types.elements import DELETE
from tests.support.plans import over_orders, said
from tests.support.runtime.memory_pipelines import cut, plan_of, rows, simulated

DATA = pl.DataFrame(
    {
        "id": list(range(40)),
        "name": [None if i % 7 == 0 else f"n{i % 5}" for i in range(40)],
        "n": [1_000_000_000 if i % 10 == 3 else i for i in range(40)],
    },
    schema_overrides={"n": pl.Int32},
)
"""Every tenth row asks for a billion of texts: rows 3, 13, 23 and 33."""
GOOD = DATA.filter(pl.col("n") < 1000)
TEXT = """
settings: {{parallelism: {parallelism}, max_value: 1000B}}
sources:
  s: {{memory: {{data: in}}, schema: {{id: bigint, name: string, n: int}}}}
steps:
  t: {{from: s, {step}}}
sinks:
  out: {{from: {output}, memory: {{data: out}}}}
  {more}
"""
LETTERS = "letters: {from: bad, memory: {data: bad}}"


def run(
    folder: Path, step: str, on_error: str = "{to: bad}", seed: int = 0, output: str = "t"
) -> tuple[InMemoryData, str, tuple[int, int, int]]:
    """Run a step over the data; return the memory, the failure, and the counts of the step."""
    memory = InMemoryData(
        {"in": {f"split{at}": cut(DATA.filter(pl.col("id") % 2 == at), 7) for at in range(2)}}
    )
    text = TEXT.format(
        parallelism=1 + seed % 3,
        step=f"{step}, on_error: {on_error}" if on_error else step,
        output=output,
        more=LETTERS if on_error == "{to: bad}" else "",
    )
    outcome = simulated(folder, text, memory, seed)
    if outcome.failure:
        failure = outcome.failure
        return memory, f"{failure.step}: {failure.message} [{failure.hint}]", (0, 0, 0)
    counts = outcome.part_counts["t"]
    return memory, "", (counts.rows_in, counts.rows_out, counts.bad_rows)


CLAUSES = {
    "with: {r: \"repeat('ab', n)\"}, select: [id, r]": {(i, "ab" * n) for i, _, n in GOOD.rows()},
    "where: \"length(repeat('ab', n)) > 9\", select: [id]": {
        (i,) for i, _, n in GOOD.rows() if n > 4
    },
    "where: n >= 0, with: {r: \"lpad('', n)\"}, drop: [n, r]": {(i, s) for i, s, _ in GOOD.rows()},
    "key: id, aggregate: {m: \"max(repeat('x', n))\"}": {(i, "x" * n) for i, _, n in GOOD.rows()},
    "key: {k: \"repeat('x', n)\"}, aggregate: {m: min(n)}": {
        ("x" * n, n) for _, _, n in GOOD.rows()
    },
    "with: {k: \"repeat('x', n)\"}, key: k, aggregate: {m: min(n)}": {
        ("x" * n, n) for _, _, n in GOOD.rows()
    },
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("step", CLAUSES)
def test_rows_above_the_limit_are_dead_letters(tmp_path: Path, step: str, seed: int) -> None:
    memory, failure, (came, _, bad) = run(tmp_path, step, seed=seed)
    assert not failure
    changes = 1 if "aggregate" in step else 0  # with `_delete`
    assert {row[: len(row) - changes] for row in rows(memory, "out")} == CLAUSES[step]
    assert (came, bad) == (40, 4)
    letters = pl.concat(memory.outputs["bad"])
    assert sorted(letters["raw"]) == [
        f'{{"id":{i},"name":"n3","n":1000000000}}' for i in (13, 23, 3, 33)
    ]
    assert set(letters["step"]) == {"t"}
    assert letters["error"].str.contains("bytes, more than max_value, 1,000").all()


FILTERED = """
key: id, aggregate: {
  m: "max(length(repeat('x', n))) filter (where n < 9)", least: "count(repeat('x', n)) filter
  (where length(repeat('y', if(n < 999, n, 0))) >= 9)", all: "max(repeat('x', if(n < 99, n, 0)))"}
""".strip()


@pytest.mark.parametrize("seed", range(2))
def test_a_value_that_a_filter_leaves_out_fails_no_row(tmp_path: Path, seed: int) -> None:
    memory, failure, (came, _, bad) = run(tmp_path, FILTERED.replace("\n", " "), "", seed)
    assert (failure, came, bad) == ("", 40, 0)
    found = {row[:4] for row in rows(memory, "out")}
    assert found == {
        (i, n if n < 9 else None, int(9 <= n < 999), "x" * n if n < 99 else "")
        for i, _, n in DATA.rows()
    }


def test_filtered_and_other_calls_of_the_same_value_differ(tmp_path: Path) -> None:
    step = (
        "where: n < 99, key: id, aggregate: {m: \"max(repeat('x', n)) filter (where n < 9)\","
        " other: \"max(repeat('x', n))\", last: \"max(repeat('x', n)) filter (where n > 9)\"}"
    )
    memory, failure, _ = run(tmp_path, step, "")
    assert not failure
    assert {row[:4] for row in rows(memory, "out")} == {
        (i, "x" * n if n < 9 else None, "x" * n, "x" * n if n > 9 else None)
        for i, _, n in GOOD.rows()
    }


def test_rows_above_the_limit_are_skipped_and_counted(tmp_path: Path) -> None:
    memory, _, counts = run(tmp_path, "select: {id: id, l: \"length(lpad('', n))\"}", "skip")
    assert counts == (40, 36, 4)
    assert rows(memory, "out") == Counter((i, n) for i, _, n in GOOD.rows())


def test_by_default_a_row_above_the_limit_fails_the_job(tmp_path: Path) -> None:
    _, failure, _ = run(tmp_path, 'with: {r: "repeat(name, n)"}', "")
    assert failure.startswith(
        "t: repeat would make a value of 2,000,000,000 bytes, more than max_value, 1,000 (in the "
    )
    assert "n3" in failure
    assert "on_error: {to: NAME}" in failure
    having = "key: id, aggregate: {m: count(*)}, having: \"length(lpad('', 5000)) > m\""
    _, failure, _ = run(tmp_path, having, "")
    assert "lpad would make a value of 5,000 bytes" in failure


def test_the_rows_of_a_route_are_bounded(tmp_path: Path) -> None:
    step = "route: {long: \"length(repeat('ab', n)) > 9\"}"
    memory, _, counts = run(tmp_path, step, output="t.long")
    assert {row[0] for row in rows(memory, "out")} == {i for i, _, n in GOOD.rows() if n > 4}
    assert counts[2] == 4


def test_batches_are_cut_so_that_their_values_stay_within_the_limit(tmp_path: Path) -> None:
    frame = pl.DataFrame({"n": [100] * 95}, schema={"n": pl.Int32})
    operation = growing_operation(tmp_path)
    operator = BoundedProjectionOperator("s", operation, BoundedRows("s", operation, int, None))
    heights = [out.height for _, out in operator.process(frame)]
    assert heights == [10] * 9 + [5]


def test_a_delete_needs_no_value(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"n": [7, 2000], DELETE: [False, True]}, schema={"n": pl.Int32, DELETE: pl.Boolean}
    )
    operation = growing_operation(tmp_path)
    operator = BoundedProjectionOperator("s", operation, BoundedRows("s", operation, int, None))
    ((_, out),) = operator.process(frame)
    assert out.rows() == [("xxxxxxx", False), (None, True)]


def growing_operation(folder: Path) -> nodes.Project:
    """Return a growing operation with a limit of 1000 bytes."""
    step = "select: {r: \"repeat('x', n)\"}"
    text = TEXT.format(parallelism=1, step=step, output="t", more="")
    part = plan_of(folder, text, {"memory": InMemoryData({}).build_connector()}).part("t")
    assert isinstance(part, nodes.Step)
    (operation,) = filter(is_growing_operation, part.operations)
    assert isinstance(operation, nodes.Project)
    return operation


def test_on_error_is_for_steps_in_which_a_row_can_fail(tmp_path: Path) -> None:
    (line,) = said(tmp_path, over_orders("where: id > 2, on_error: skip"))
    assert 'on_error is for steps with "map", "lookup" or "process"' in line
    assert "a function such as repeat" in line
    assert not said(tmp_path, over_orders("where: \"repeat(name, 100) > 'a'\", on_error: skip"))


def test_a_change_cannot_be_left_out(tmp_path: Path) -> None:
    step = (
        "key: name, aggregate: {n: count(*)},"
        ' select: {r: "repeat(name, cast(n as int))", name: name}'
    )
    assert not said(tmp_path, over_orders(step))
    (line,) = said(tmp_path, over_orders(f"{step}, on_error: skip"))
    assert "on_error: a change cannot be left out" in line
