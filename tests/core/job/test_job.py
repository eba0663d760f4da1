"""The real runtime over memory: the same rows at any parallelism, in any order of tasks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemoryEvent
from tests.support.runtime.memory_pipelines import cut, rows, simulated, threaded
from tests.support.runtime.source_subtasks import at

DATA = pl.DataFrame(
    {"id": list(range(40)), "name": [None if i % 7 == 0 else f"n{i % 5}" for i in range(40)]}
)
TEXT = """
settings: {{parallelism: {parallelism}}}
sources:
  s: {{memory: {{data: in}}, schema: {{id: bigint, name: string}}}}
steps:
  named: {{from: s, where: name is not null}}
  halves: {{from: named, route: {{a: name = 'n1' or name = 'n2'}}, parallelism: {other}}}
  short: {{from: halves.a, select: {{id: id}}}}
  rest: {{from: halves.else, select: [id]}}
  both: {{from: [short, rest], parallelism: {other}}}
sinks:
  out: {{from: both, memory: {{data: out}}}}
  again: {{from: named, memory: {{data: again}}}}
"""
NAMED = DATA.filter(pl.col("name").is_not_null())
TRUTH = Counter((i,) for i in NAMED["id"])


def memory_of(splits: int, size: int) -> InMemoryData:
    """Return the data assigned to splits, in chunks of that size."""
    parts = [DATA.filter(pl.col("id") % splits == at) for at in range(splits)]
    return InMemoryData(
        inputs={"in": {f"split{at}": cut(part, size) for at, part in enumerate(parts)}}
    )


@pytest.mark.parametrize("seed", range(30))
def test_rows_do_not_depend_on_parallelism_batches_or_the_order_of_tasks(
    tmp_path: Path, seed: int
) -> None:
    parallelism, other = (1, 1) if seed % 3 == 0 else (3, 2) if seed % 3 == 1 else (2, 3)
    memory = memory_of(1 + seed % 4, 1 + seed % 5)
    text = TEXT.format(parallelism=parallelism, other=other)
    outcome = simulated(tmp_path, text, memory, seed)
    assert outcome.failure is None
    assert rows(memory, "out") == TRUTH
    assert rows(memory, "again") == Counter(NAMED.rows())
    assert not memory.prepared_batches
    assert outcome.part_counts["named"].rows_in == 40
    assert outcome.part_counts["named"].rows_out == NAMED.height
    assert outcome.part_counts["both"].rows_out == NAMED.height


def test_kernels_in_threads_give_the_same_rows(tmp_path: Path) -> None:
    memory = memory_of(2, 7)
    assert threaded(tmp_path, TEXT.format(parallelism=2, other=1), memory).failure is None
    assert rows(memory, "out") == TRUTH


MAPPED = """
sources:
  s: {{memory: {{data: in}}, schema: {{id: bigint, name: string}}}}
steps:
  m:
    from: s
    map: {{python: "f.py:f", returns: {{id: bigint, size: int}}, mode: {mode}}}
    on_error: {on_error}
sinks:
  out: {{from: m, memory: {{data: out}}}}
{more}
"""
BY_ROW = """
def f(row):
    if row["id"] == 3:
        raise ValueError("no three")
    if row["id"] % 2:
        return None
    return [{"id": row["id"], "size": len(row["name"] or "")}] * 2
"""
BY_BATCH = """
import polars as pl

def f(rows):
    return rows.select("id", pl.col("name").str.len_chars().cast(pl.Int32).alias("size"))
"""


def mapped(
    folder: Path, code: str, mode: str, on_error: str = "fail", more: str = ""
) -> InMemoryData:
    """Run a pipeline of one map. Return the memory, with the failure as an output."""
    (folder / "f.py").write_text(code)
    memory = memory_of(1, 10)
    text = MAPPED.format(mode=mode, on_error=on_error, more=more)
    outcome = simulated(folder, text, memory, 1)
    if outcome.failure:
        memory.outputs["failure"] = [pl.DataFrame({"said": [outcome.failure.message]})]
    return memory


def test_a_function_over_batches(tmp_path: Path) -> None:
    memory = mapped(tmp_path, BY_BATCH, "batch")
    assert rows(memory, "out") == Counter(
        (i, None if n is None else len(n)) for i, n in DATA.rows()
    )


def test_a_function_over_rows_may_fail_on_some(tmp_path: Path) -> None:
    truth = Counter((i, len(n or "")) for i, n in DATA.rows() if i % 2 == 0)
    memory = mapped(tmp_path, BY_ROW, "row", "skip")
    assert rows(memory, "out") == truth + truth


def test_rows_on_which_a_function_failed_go_where_the_user_said(tmp_path: Path) -> None:
    more = "  bad: {from: failed, memory: {data: bad}}"
    memory = mapped(tmp_path, BY_ROW, "row", "{to: failed}", more)
    (letter,) = pl.concat(memory.outputs["bad"]).to_dicts()
    assert letter["error"] == "f.py:4: ValueError: no three"
    assert (letter["step"], letter["raw"]) == ("m", '{"id":3,"name":"n3"}')


@pytest.mark.parametrize(
    ("code", "mode", "said"),
    [
        (BY_ROW, "row", "f.py:4: ValueError: no three (in the row {'id': 3, 'name': 'n3'})"),
        (
            "def f(rows):\n    return rows",
            "batch",
            "must return the columns id, size, got id, name",
        ),
        ("def f(rows):\n    return 1", "batch", "must return a polars DataFrame, got int"),
        ("def f(rows):\n    return 1 / 0", "batch", "f.py:2: ZeroDivisionError"),
        ("def f(row):\n    return row", "row", "must return the columns id, size, got id, name"),
        ("def f(row):\n    return 7", "row", "must return a dict, got int"),
        (
            "def f(row):\n    return {'id': row['id'], 'size': 'x'}",
            "row",
            'f.py:f returned a "size" that is not int',
        ),
        (
            "def f(rows):\n    return rows.select('id', size='id')",
            "batch",
            'column "size" is declared int (Int32), but has type Int64',
        ),
    ],
)
def test_a_function_that_does_not_keep_its_word_fails_the_job(
    tmp_path: Path, code: str, mode: str, said: str
) -> None:
    memory = mapped(tmp_path, code, mode)
    assert said in memory.outputs["failure"][0]["said"][0]
    assert "out" not in memory.outputs
    assert not memory.prepared_batches


DRIFTING = """
settings: {{parallelism: {parallelism}}}
sources:
  s:
    memory: {{data: in}}
    schema: {{at: timestamp}}
    event_time: at
    watermark: {{max_drift: 15s}}
sinks: {{out: {{from: s, memory: {{data: out}}}}}}
"""


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_fast_split_waits_for_a_slow_one(tmp_path: Path, parallelism: int) -> None:
    ahead: list[MemoryEvent] = [at(10 * n) for n in range(20)]
    behind: list[MemoryEvent] = [each for n in range(10) for each in (at(10 * n), 5)]
    memory = InMemoryData(inputs={"in": {"ahead": ahead, "behind": behind}})
    text = DRIFTING.format(parallelism=parallelism)
    assert simulated(tmp_path, text, memory, 1).failure is None
    came = [(when, time) for when, rows in memory.write_times["out"] for time in rows["at"]]
    assert len(came) == 30
    start = min(time for _, time in came)
    # The slowest split is at twice the seconds; rows in flight are two chunks ahead of the limit.
    assert all((time - start).total_seconds() <= 2 * when + 35 for when, time in came if when < 50)
    assert max(when for when, _ in came) == 50


TOLD = """
sources:
  s:
    memory: {data: in}
    schema: {at: timestamp, x: bigint}
    event_time: at
    watermark: {python: "marks.py:told"}
steps: {t: {from: s, select: [at]}}
sinks: {out: {from: t, memory: {data: out}}}
"""


def test_a_failing_watermark_function_is_reported_with_file_and_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "marks.py").write_text("def told(rows):\n    return rows['y'].max()\n")
    frame = at(1, 2).with_columns(x=pl.lit(1, pl.Int64))
    outcome = simulated(tmp_path, TOLD, InMemoryData(inputs={"in": {"a": [frame]}}), 1)
    assert outcome.failure is not None
    assert outcome.failure.step == "s"
    assert outcome.failure.message.startswith("marks.py:2: ColumnNotFoundError")
    assert outcome.failure.message.endswith("(in a batch of 2 rows)")
    assert not outcome.failure.traceback
