"""Rows whose expressions fail are treated as `on_error` says, whatever the clause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.operators.checked_rows import CheckedProjectionOperator, CheckedRows
from headrace.core.operators.operator import FailedRow, Output
from headrace.core.plan import nodes
from headrace.core.plan.row_expressions import find_fallible_expressions, is_fallible_operation
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
        "t: repeat would make a value of 2,000,000,000 bytes, more than max_value, 1,000 (in column"
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
    operator = CheckedProjectionOperator(
        "s", operation, CheckedRows("s", find_fallible_expressions(operation), int, None)
    )
    heights = [out.height for _, out in operator.process(frame)]
    assert heights == [10] * 9 + [5]


def test_a_delete_needs_no_value(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"n": [7, 2000], DELETE: [False, True]}, schema={"n": pl.Int32, DELETE: pl.Boolean}
    )
    operation = growing_operation(tmp_path)
    operator = CheckedProjectionOperator(
        "s", operation, CheckedRows("s", find_fallible_expressions(operation), int, None)
    )
    ((_, out),) = operator.process(frame)
    assert out.rows() == [("xxxxxxx", False), (None, True)]


def growing_operation(folder: Path) -> nodes.Project:
    """Return a growing operation with a limit of 1000 bytes."""
    step = "select: {r: \"repeat('x', n)\"}"
    text = TEXT.format(parallelism=1, step=step, output="t", more="")
    part = plan_of(folder, text, {"memory": InMemoryData({}).build_connector()}).part("t")
    assert isinstance(part, nodes.Step)
    (operation,) = filter(is_fallible_operation, part.operations)
    assert isinstance(operation, nodes.Project)
    return operation


def test_on_error_of_a_step_in_which_no_row_can_fail_is_warned_of(tmp_path: Path) -> None:
    (line,) = said(tmp_path, over_orders("where: id > 2, on_error: skip"))
    assert "no row of this step can fail, so on_error has no effect" in line
    for condition in ("repeat(name, 100) > 'a'", "assert_true(id > 0) is null"):
        assert not said(tmp_path, over_orders(f'where: "{condition}", on_error: skip'))


FAILING: dict[str, set[tuple[Any, ...]]] = {
    "where: \"if(n < 999, n > 4, raise_error('large'))\", select: [id]": {
        (i,) for i, _, n in GOOD.rows() if n > 4
    },
    'with: {r: "cast(assert_true(n < 999) as string)"}, select: [id]': {
        (i,) for i, _, _ in GOOD.rows()
    },
    "select: {id: id, r: \"if(n > 999, raise_error(concat('large: ', name)), n)\"}": {
        (i, n) for i, _, n in GOOD.rows()
    },
    "key: id, aggregate: {m: \"max(if(n > 999, raise_error('large'), n))\"}": {
        (i, n) for i, _, n in GOOD.rows()
    },
    "key: {k: \"if(n > 999, raise_error('large'), n)\"}, aggregate: {m: min(n)}": {
        (n, n) for _, _, n in GOOD.rows()
    },
    "dedup: {key: {k: \"if(n > 999, raise_error('large'), id)\"}}, select: [id]": {
        (i,) for i, _, _ in GOOD.rows()
    },
    "key: id, top: {n: 1, by: \"if(n > 999, raise_error('large'), n)\"}, select: [id, rank]": {
        (i, 1) for i, _, _ in GOOD.rows()
    },
    'with: {a: "array(1, 2)"}, select: {id: id, r: "element_at(a, if(n > 999, 0, n))"}': {
        (i, n if 0 < n < 3 else None) for i, _, n in GOOD.rows()
    },
}
"""Steps in which the rows with a large `n` fail, and the other rows."""


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("step", FAILING)
def test_rows_that_fail_are_dead_letters_in_every_clause(
    tmp_path: Path, step: str, seed: int
) -> None:
    good = {row for row in FAILING[step] if "element_at(" not in step or row[0] != 0}
    memory, failure, (came, _, bad) = run(tmp_path, step, seed=seed)
    assert not failure
    width = len(next(iter(good)))
    assert {row[:width] for row in rows(memory, "out")} == good
    letters = pl.concat(memory.outputs["bad"])
    failed = DATA.filter((pl.col("n") > 999) | (pl.lit("element_at(" in step) & (pl.col("n") == 0)))
    assert sorted(letters["raw"].str.json_path_match("$.id").cast(pl.Int64)) == [*failed["id"]]
    assert (came, bad) == (40, failed.height)


def test_a_failure_names_the_step_the_expression_and_the_row(tmp_path: Path) -> None:
    _, failure, _ = run(tmp_path, "with: {r: \"if(n > 999, raise_error('too large'), n)\"}", "")
    assert failure.startswith("t: raise_error: too large (in column \"r\", in the row {'id': ")
    assert "on_error" in failure
    _, failure, _ = run(tmp_path, 'where: "id < 0 or assert_true(n < 999) is null"', "")
    assert failure.startswith(
        "t: assert_true: the condition is not true (in the condition id < 0 or assert_true(n < 999)"
        " is null, in the row {"
    )


def test_conditions_are_not_moved_before_columns_that_may_fail(tmp_path: Path) -> None:
    step = "with: {r: \"if(n > 999, raise_error('large'), n)\"}, select: [id, r]"
    text = TEXT.replace("from: {output}", "from: later").replace(
        "sinks:", '  later: {{from: t, where: "r < 5 and id <> 13"}}\nsinks:'
    )
    memory = InMemoryData({"in": {"split": cut(DATA, 7)}})
    outcome = simulated(
        tmp_path,
        text.format(parallelism=1, step=f"{step}, on_error: skip", output="", more=""),
        memory,
        0,
    )
    assert outcome.part_counts["t"].bad_rows == 4
    assert rows(memory, "out") == Counter((i, n) for i, _, n in GOOD.rows() if n < 5)


def test_a_column_that_nobody_reads_is_still_checked(tmp_path: Path) -> None:
    step = "with: {ok: \"cast(assert_true(n < 999, 'large') as string)\"}"
    text = TEXT.replace("from: {output}", "from: later").replace(
        "sinks:", "  later: {{from: t, select: [id]}}\nsinks:"
    )
    memory = InMemoryData({"in": {"split": cut(DATA, 7)}})
    outcome = simulated(
        tmp_path, text.format(parallelism=1, step=step, output="", more=""), memory, 0
    )
    assert outcome.failure is not None and "assert_true: large" in outcome.failure.message


CHANGES = """
settings: {{parallelism: {parallelism}, max_value: 1000B}}
sources:
  s: {{memory: {{data: in}}, schema: {{id: bigint, name: string, n: int}}}}
steps:
  totals: {{from: s, key: id, aggregate: {{n: last(n)}}}}
  t: {{from: totals, {step}, on_error: {{to: bad}}}}
sinks:
  out: {{from: t, memory: {{data: out}}}}
  letters: {{from: bad, memory: {{data: bad}}}}
"""
VERSIONS = pl.DataFrame(
    {"id": [1, 2, 1, 2, 1, 3], "name": "x", "n": [5, 6, 5000, 7, 8, 5000]},
    schema_overrides={"n": pl.Int32},
)
"""The rows of key 1 fail in between, those of key 3 at the end."""


@pytest.mark.parametrize("rows_per_batch", [1, 2])
@pytest.mark.parametrize(
    "step",
    [
        "select: {id: id, v: \"if(n > 999, raise_error('large'), n)\"}",
        'where: "assert_true(n < 999) is null", select: {id: id, v: n}',
        "select: {id: id, v: \"length(repeat('x', n))\"}",
        "key: id, aggregate: {v: \"sum(length(repeat('x', n)))\"}",
        "key: id, aggregate: {v: \"max(if(n > 999, raise_error('large'), n))\"}, select: [id, v]",
    ],
)
def test_a_change_that_fails_deletes_the_row_before_it(
    tmp_path: Path, step: str, rows_per_batch: int
) -> None:
    memory = InMemoryData({"in": {"split": cut(VERSIONS, rows_per_batch)}})
    outcome = simulated(tmp_path, CHANGES.format(parallelism=1, step=step), memory, 0)
    assert not outcome.failure
    current: dict[int, int] = {}
    for frame in memory.outputs["out"]:
        for row in frame.iter_rows(named=True):
            if row["_delete"]:
                current.pop(row["id"], None)
            else:
                current[row["id"]] = row["v"]
    assert current == {1: 8, 2: 7}
    assert pl.concat(memory.outputs["bad"]).height == 2


def test_a_key_of_changes_that_fails_is_of_no_group(tmp_path: Path) -> None:
    step = "key: {k: \"if(id = 3, raise_error('three'), id)\"}, aggregate: {v: count(*)}"
    text = CHANGES.format(parallelism=1, step=step)
    part = plan_of(tmp_path, text, {"memory": InMemoryData({}).build_connector()}).part("t")
    assert isinstance(part, nodes.Step)
    failed: list[FailedRow] = []

    def collect(rows: list[FailedRow]) -> Iterator[Output]:
        failed.extend(rows)
        return iter(())

    checked = CheckedRows("t", find_fallible_expressions(part.operations[0]), int, collect)
    changes = pl.DataFrame({"id": [1, 3, 3, 2], DELETE: [False, False, True, True]})
    ((passed, _, _),) = checked.split(changes)
    assert passed.rows() == [(1, False), (2, True)]
    assert [row.row for row in failed] == [{"id": 3}]


RESULTS = {
    "key: id, aggregate: {m: \"if(max(n) > 999, raise_error('large'), max(n))\", c: count(*)},"
    " having: c > 0": {(i, n, 1) for i, _, n in GOOD.rows()},
    "key: id, aggregate: {m: max(n), c: count(*)},"
    ' having: "m < 9 or assert_true(m < 999) is null"': {(i, n, 1) for i, _, n in GOOD.rows()},
    "key: id, aggregate: {m: max(n), c: \"length(repeat('x', cast(max(n) as int)))\"},"
    " having: c <> 5": {(i, n, n) for i, _, n in GOOD.rows() if n != 5},
    "key: id, aggregate: {m: max(n), c: \"length(repeat('x', cast(max(n) as int)))\"},"
    " select: {id: id, m: m, c: c + 1}": {(i, n, n + 1) for i, _, n in GOOD.rows()},
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("step", RESULTS)
def test_results_that_fail_are_dead_letters(tmp_path: Path, step: str, seed: int) -> None:
    memory, failure, (came, _, bad) = run(tmp_path, step, seed=seed)
    assert not failure
    passed = [frame.filter(~pl.col(DELETE)) for frame in memory.outputs["out"]]
    assert {row[:3] for frame in passed for row in frame.iter_rows()} == RESULTS[step]
    letters = pl.concat(memory.outputs["bad"])
    assert sorted(letters["raw"].str.json_path_match("$.id").cast(pl.Int64)) == [3, 13, 23, 33]
    assert (came, bad) == (40, 4)


JOINS = """
settings: {{parallelism: {parallelism}}}
sources:
  s: {{memory: {{data: in}}, schema: {{id: bigint, name: string, n: int}}}}
  u: {{memory: {{data: other}}, schema: {{k: int, x: int}}}}
steps:
  t:
    join: {{left: s, right: u, on: "{on}"{more}}}
    select: {{id: id, x: x}}
    on_error: {{to: bad}}
sinks:
  out: {{from: t, memory: {{data: out}}}}
  letters: {{from: bad, memory: {{data: bad}}}}
"""
PAIRS = ((2, 1), (4, 0), (6, 3), (8, 99))
OTHERS = pl.DataFrame(PAIRS, schema=dict.fromkeys("kx", pl.Int32), orient="row")


def join(folder: Path, on: str, more: str = "", seed: int = 0) -> tuple[set[Any], list[str]]:
    """Join the data with others; return the rows, and the dead letters."""
    memory = InMemoryData({"in": {"s": cut(DATA, 7)}, "other": {"u": cut(OTHERS, 3)}})
    text = JOINS.format(parallelism=1 + seed, on=on, more=more)
    outcome = simulated(folder, text, memory, seed)
    assert not outcome.failure, outcome.failure
    found = {row[:2] for frame in memory.outputs.get("out", []) for row in frame.iter_rows()}
    letters = [raw for frame in memory.outputs.get("bad", []) for raw in frame["raw"]]
    return found, sorted(letters)


@pytest.mark.parametrize("seed", range(2))
def test_rows_whose_key_in_a_join_fails_are_dead_letters(tmp_path: Path, seed: int) -> None:
    key = "if(s.n > 999, raise_error('large'), s.n)"
    found, letters = join(tmp_path, f"{key} = if(u.x = 0, raise_error('zero'), u.k)", seed=seed)
    assert found == {
        (i, x) for i, _, n in GOOD.rows() for k, x in ((2, 1), (6, 3), (8, 99)) if n == k
    }
    rows_left = [f'{{"id":{i},"name":"n3","n":1000000000}}' for i in (13, 23, 3, 33)]
    assert letters == sorted([*rows_left, '{"k":4,"x":0}'])
    outer, _ = join(tmp_path, f"{key} = u.k", ", type: left", seed=seed)
    assert {i for i, _ in outer} == {*GOOD["id"]}


@pytest.mark.parametrize("seed", range(2))
def test_pairs_of_an_inner_join_whose_condition_fails_are_dead_letters(
    tmp_path: Path, seed: int
) -> None:
    on = "s.n = u.k and (u.x < 9 or raise_error('large'))"
    found, letters = join(tmp_path, on, seed=seed)
    assert found == {
        (i, x) for i, _, n in GOOD.rows() for k, x in ((2, 1), (4, 0), (6, 3)) if n == k
    }
    assert len(letters) == GOOD.filter(pl.col("n") == 8).height == 1


@pytest.mark.parametrize("before", ["", "where: n <> 8, "])
@pytest.mark.parametrize("seed", range(2))
def test_rows_whose_key_in_a_lookup_fails_are_dead_letters(
    tmp_path: Path, seed: int, before: str
) -> None:
    step = (
        f"{before}lookup: {{memory: {{data: names}}, "
        "on: {k: \"if(n > 999, raise_error('large'), n)\"}, add: {title: string}}"
    )
    numbers = pl.Series("k", range(0, 40, 2), dtype=pl.Int32)
    table = LookupTableData(pl.DataFrame({"k": numbers, "title": [f"t{n}" for n in numbers]}))
    memory = InMemoryData({"in": {"split": cut(DATA, 7)}}, tables={"names": table})
    text = TEXT.format(
        parallelism=1 + seed, step=f"{step}, on_error: {{to: bad}}", output="t", more=LETTERS
    )
    outcome = simulated(tmp_path, text, memory, seed)
    assert not outcome.failure, outcome.failure
    found = {(row[0], row[3]) for frame in memory.outputs["out"] for row in frame.iter_rows()}
    kept = GOOD.filter(pl.col("n") != 8) if before else GOOD
    assert found == {(i, None if n % 2 else f"t{n}") for i, _, n in kept.rows()}
    letters = pl.concat(memory.outputs["bad"])
    assert sorted(letters["raw"].str.json_path_match("$.id").cast(pl.Int64)) == [3, 13, 23, 33]
    assert letters["error"][0] == 'raise_error: large (in key "k")'
    assert outcome.part_counts["t"].bad_rows == 4
