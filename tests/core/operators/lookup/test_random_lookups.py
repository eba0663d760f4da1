"""Random lookups with steps around them, compared with the interpreter of plans."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.testing.reference.interpreter import interpret
from tests.support.runtime.memory_pipelines import bounds_of, cut, job_of, run_simulated

SCHEMA = {"a": pl.Int64, "b": pl.String}
TABLE = {"k": pl.Int64, "t": pl.String, "v": pl.Int32, "w": pl.String}
LETTER = st.sampled_from(["", "x", "y", "Ä"])
ROWS = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.one_of(st.none(), LETTER)))
KEYS = st.tuples(st.integers(0, 4), LETTER)
VALUES = st.tuples(st.one_of(st.none(), st.integers(0, 9)), st.one_of(st.none(), LETTER))

PIPELINE = """
settings: {{parallelism: {parallelism}}}
sources:
  rows: {{memory: {{data: in}}, schema: {{a: bigint, b: string}}}}
steps:
  step:
    from: rows
    {where}
    lookup:
      memory: {{data: t}}
      on: {on}
      add: {{v: int, other: {{column: w, type: string}}}}
      on_miss: {on_miss}
      ordered: {ordered}
      {cache}
    select: {{a: a, b: b, v: v, sum: v + a, other: upper(other)}}
  again: {{from: step, where: "v is null or v < 7"}}
sinks:
  out: {{from: again, memory: {{data: out}}}}
  {sink}
"""
MISSES = "misses: {from: missed, memory: {data: missed}}"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_lookup_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    whole = data.draw(st.booleans(), "whether the key has two columns")
    table = data.draw(st.dictionaries(KEYS, VALUES, max_size=12))
    known = {key if whole else key[:1]: (*key, *values) for key, values in table.items()}
    rows = pl.DataFrame(data.draw(ROWS), SCHEMA, orient="row")
    on_miss = data.draw(st.sampled_from(["null", "drop", "{to: missed}"]))
    text = PIPELINE.format(
        parallelism=data.draw(st.sampled_from([1, 3])),
        where=data.draw(st.sampled_from(["", "where: a > 0"])),
        on="{k: a, t: lower(b)}" if whole else "{k: a}",
        on_miss=on_miss,
        ordered=data.draw(st.sampled_from(["true", "false"])),
        cache=data.draw(st.sampled_from(["", "cache: {rows: 3, ttl: 1h}"])),
        sink=MISSES if "to" in on_miss else "",
    )
    shelf = LookupTableData(
        pl.DataFrame([*known.values()], TABLE, orient="row"),
        delay_s=lambda number, keys: (number * 7 % 5) / 10,
        keys_per_call=data.draw(st.sampled_from([1, 2, 100])),
    )
    compare(
        text, rows, shelf, data.draw(st.sampled_from([1, 3, 50])), data.draw(st.integers(0, 99))
    )


def compare(text: str, rows: pl.DataFrame, shelf: LookupTableData, size: int, seed: int) -> None:
    """Run a pipeline, and compare its output with the interpreter's."""
    memory = InMemoryData({"in": {"a": cut(rows, size)}}, tables={"t": shelf})
    with TemporaryDirectory() as folder:
        job = job_of(Path(folder), text, memory, KernelExecutor(), bounds_of(seed))
        outcome = run_simulated(job, seed)
    assert outcome.failure is None, outcome.failure
    wanted = interpret(job.plan, {"rows": [rows.to_dicts()], "step": [shelf.rows.to_dicts()]})
    for name in ("out", "missed"):
        found = Counter(row for frame in memory.outputs.get(name, []) for row in frame.rows())
        assert found == Counter(tuple(row.values.values()) for row in wanted.get(name, []))
