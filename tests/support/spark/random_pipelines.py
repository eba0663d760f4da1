"""Random pipelines on Spark, held against the interpreter of rows: `N [SEED]` on the command line.

Some chains of steps read the same sources in one pipeline, for what takes long is a job of Spark,
not its rows. A chain is rows of one source or two, steps without state, one with state, and perhaps
one after that.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import hypothesis
import polars as pl
from hypothesis import strategies as st

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.spark.arrow_functions import decode_failure
from headrace.core.testing.reference.interpreter import interpret
from headrace.core.types.change_columns import CHANGE
from tests.support.reference import (
    random_joins,
    random_patterns,
    random_pipelines,
    random_table_steps,
    random_tables,
)
from tests.support.runtime.committed_output import Values, shown
from tests.support.spark.batches import batch
from tests.support.spark.session import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHAINS = 4
JOINS = 2
TABLES = 1
CHANGED = {"a": "changed", "b": "more_changed"}
"""The sources that may be tables."""
SOURCES = ("rows", "more")
SOURCE = """\
  {name}:
    files: {{path: {name}}}
    format: parquet
    schema: {schema}
    event_time: at
"""
TABLE = "    on_error: skip\n    {table}\n"
STATELESS = (
    ["where: v > -3 or v is null"],
    ["where: not s is null"],
    ["with: {v: 'coalesce(v, 0) + 1'}"],
    ["with: {s: \"upper(s) || 'ß'\"}"],
    ["with: {x: 'if(isnan(x), null, x * -1)'}"],
    ["with: {k: v, v: k}"],
    ["with: {at: at + interval 3 days}"],
    ["select: {v: k * k, k: k, x: x, at: at, s: cast(at as string)}"],
    [
        "with: {all: 'array(v, 1, null)'}",
        "explode: {v2: all}\nselect: {k: k, s: s, v: v2, x: x, at: at}",
    ],
    [
        "with: {all: 'case when v > 0 then array(k, v) end'}",
        "explode: {k2: all, outer: true}\nselect: {k: k2, s: s, v: v, x: x, at: at}",
    ],
)
"""Clauses of a step, or of several."""
ROUTES = ("a", "b", "else")
ROUTE = "route: {a: v > 0, b: s = 'a' or k is null}"
BEHIND_WINDOWS = (
    "where: n > 1",
    "with: {n: n * 2, hour: hour(window_start)}",
    "window: {tumble: 10s}\naggregate: {n: sum(n), most: max(n), rows: count(*)}",
    "window: {session: 3s}\naggregate: {n: count(*), least: min(window_end)}",
    "window: {slide: 9s, every: 3s}\nkey: n\naggregate: {all: count(*)}",
    "aggregate: {n: sum(n), windows: count(*)}",
)
BEHIND_CHANGES = ("where: n > 1", "with: {n: n * 2}")


@dataclass(slots=True)
class Chains:
    """A pipeline as it grows."""

    steps: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    """The streams that are written."""
    changed: set[str] = field(default_factory=set)
    """Those that may lack a key by which files could write them."""
    tables: dict[str, str] = field(default_factory=dict)
    """The clauses `table` of further sources."""
    rules: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The rows of further sources, whose rows are rules of `match`."""

    def add(self, name: str, inputs: str, clauses: list[str]) -> str:
        """A step more; its name."""
        lines = [
            f"from: {inputs}",
            *(line for each in clauses for line in each.split("\n") if line),
        ]
        self.steps.append("".join([f"  {name}:\n", *(f"    {line}\n" for line in lines)]))
        return name

    def of(self, end: str) -> str:
        """The steps of a chain."""
        return "".join(step for step in self.steps if step.startswith(f"  {end.split('_')[0]}_"))

    def text(self) -> str:
        """The pipeline."""
        sources = [SOURCE.format(name=name, schema=random_pipelines.SCHEMA) for name in SOURCES]
        schema = f"{random_pipelines.SCHEMA[:-1]}, {CHANGE}: string}}"
        for name in self.rules:
            sources.append(SOURCE.format(name=name, schema=random_patterns.RULE_SCHEMA))
        for name, table in self.tables.items():
            sources.append(SOURCE.format(name=name, schema=schema) + TABLE.format(table=table))
        sinks = (
            f"  {end.replace('.', '_')}_out:\n    from: {end}\n"
            f"    files: {{path: out/{end}{', changelog: full' * (end in self.changed)}}}\n"
            "    format: parquet\n"
            for end in self.ends
        )
        steps = "".join(self.steps)
        return f"name: test\nsources:\n{''.join(sources)}steps:\n{steps}sinks:\n{''.join(sinks)}"


@st.composite
def drawn(draw: st.DrawFn) -> Chains:
    """Some chains; all sources are read."""
    chains = Chains()
    for number in range(CHAINS):
        _chain(draw, chains, f"c{number}")
    for source, name in zip(SOURCES, ("a", "b"), strict=True):
        chains.ends.append(chains.add(f"all_{source}", source, ["where: v > 0"]))
        chains.add(name, source, ["where: v > -4 or v is null"])
    for number in range(JOINS):
        name = f"j{number}_"
        steps = re.sub(
            r"\b(met|step|mine|theirs|pair|twice)\b", rf"{name}\1", draw(random_joins.steps())
        )
        chains.steps.append(steps)
        chains.ends.append(f"{name}step")
    for number in range(TABLES):
        name = f"t{number}_"
        steps = re.sub(
            r"\b(mine|theirs|joined|facts|timed|step)(?=\b|_)",
            rf"{name}\1",
            draw(
                random_tables.steps(
                    (
                        random_tables.BY_KEY,
                        random_tables.BY_TIME,
                        random_tables.BY_WINDOW,
                        random_tables.BY_LATE_WINDOW,
                        random_tables.OF_CHANGES,
                    )
                )
            ),
        )
        chains.steps.append(steps)
        chains.ends.append(f"{name}step")
    _add_deep_tables(draw, chains, "d0")
    return chains


def _add_deep_tables(draw: st.DrawFn, chains: Chains, name: str) -> None:
    """Draw a query several steps deep over `a` and `b`, or over sources that are tables."""
    kinds = st.sampled_from([None, *random_tables.SOURCE_TABLES.values()])
    tables = {each: clause for each in "ab" if (clause := draw(kinds))}
    chains.tables.update({CHANGED[each]: clause for each, clause in tables.items()})
    made = draw(random_table_steps.steps(tables, prefix=f"{name}_"))
    for each in "ab":
        source = CHANGED[each] if each in tables else each
        chains.add(f"{name}_{each}_rows", source, [random_table_steps.COLUMNS])
    chains.steps += made.lines
    chains.ends += made.ends
    chains.changed.update(made.ends)


def _chain(draw: st.DrawFn, chains: Chains, name: str) -> None:
    stream = draw(st.sampled_from([*SOURCES, f"[{', '.join(SOURCES)}]"]))
    some = draw(st.lists(st.sampled_from(STATELESS), max_size=2))
    for at, clause in enumerate(chain(*some)):
        stream = chains.add(f"{name}_{at}", stream, [clause])
    if draw(st.integers(0, 3)) == 0:
        stream = f"{chains.add(f'{name}_r', stream, [ROUTE])}.{draw(st.sampled_from(ROUTES))}"
    clauses = draw(_keyed())
    stream = chains.add(f"{name}_keyed", stream, clauses)
    if any("ties:" in clause for clause in clauses):
        chains.changed.add(stream)  # a rank with ties is no key
    if following := _following("\n".join(clauses)):
        for at in range(draw(st.integers(0, 2))):
            if at and "from:" in following[0]:
                break
            clause = draw(st.sampled_from(following))
            stream = chains.add(f"{name}_b{at}", stream, [clause])
            following = _following(clause) if "aggregate" in clause else ()
            if not following:
                break
    chains.ends.append(stream)


def _keyed() -> st.SearchStrategy[list[str]]:
    dedups = ["dedup: {key: [k, s]}", "dedup: {key: k, keep: last}", "dedup: {key: x}"]
    dedups += ["dedup: {key: k, order: event_time}", "dedup: {key: s, ttl: 2s, order: event_time}"]
    return st.one_of(
        random_pipelines.aggregating(one_split=True),
        random_pipelines.aggregating(one_split=True),
        random_pipelines.ranking(one_split=True),
        st.sampled_from(dedups).map(lambda clause: [clause]),
    )


def _following(clauses: str) -> tuple[str, ...]:
    """Return the clauses that can follow such a step."""
    if "aggregate" not in clauses or " n:" not in clauses.replace("{n:", " n:"):
        return ()
    if "window: {" not in clauses or "lateness" in clauses or "trigger" in clauses:
        return BEHIND_CHANGES
    if "count: 3" in clauses or "count: 4" in clauses or "count: 2," in clauses:
        return ()
    return () if "global" in clauses else BEHIND_WINDOWS


FRAMES = (random_pipelines.frame, random_patterns.rule_frame)
"""The frames of rows, and of rules."""
ROWS = st.lists(random_pipelines.ROWS, min_size=1, max_size=3)
CHANGED_ROW = st.builds(
    lambda row, change: {**row, CHANGE: change}, random_pipelines.ROW, random_tables.CHANGES
)
CHANGED_ROWS = st.lists(st.lists(CHANGED_ROW, min_size=1, max_size=20), min_size=1, max_size=2)


def held(spark: SparkSession, chains: Chains, inputs: dict[str, list[Any]]) -> Iterator[str]:
    """Return the differences of the chains over these rows, by source and split."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "p.yaml").write_text(chains.text(), "utf-8")
        for source, splits in inputs.items():
            (root / source).mkdir()
            for number, rows in enumerate(splits):
                frame = FRAMES[source in chains.rules](rows)
                frame.write_parquet(root / source / f"{number}.parquet")
        checked = check_pipeline(str(root / "p.yaml"), ())
        plan = checked.plan
        assert plan is not None, [each for each in checked.problems if each.severity == "error"]
        wanted = interpret(plan, inputs, in_time=True)
        batch(spark, root / "p.yaml")
        for end in chains.ends:
            names = plan.streams[end].schema.names
            rows = Counter(shown(row.values[name] for name in names) for row in wanted[end])
            found = _found(root / "out" / end, names)
            if found != rows:
                yield f"{chains.of(end)}{end}: not {dict(found - rows)} but {dict(rows - found)}"


def _found(folder: Path, names: tuple[str, ...]) -> Counter[Values]:
    parts = folder.glob("part-*")
    return Counter(
        shown(row) for part in parts for row in pl.read_parquet(part).select(names).rows()
    )


def hold(
    spark: SparkSession,
    count: int,
    seed: int = 0,
    pipelines: st.SearchStrategy[Chains] | None = None,
) -> list[str]:
    """Compare this number of pipelines, and return the differences."""
    wrong: list[str] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        drawn() if pipelines is None else pipelines,
        st.tuples(ROWS, ROWS, CHANGED_ROWS, CHANGED_ROWS),
    )
    def one(chains: Chains, splits: tuple[list[Any], ...]) -> None:
        inputs = dict(zip((*SOURCES, *CHANGED.values()), splits, strict=True))
        inputs = {n: rows for n, rows in inputs.items() if n in SOURCES or n in chains.tables}
        inputs |= {name: [rows] for name, rows in chains.rules.items()}
        try:
            found = list(held(spark, chains, inputs))
        except Exception as error:
            found = [chains.text(), str(decode_failure(error) or error)]
        if found:
            wrong.append("\n".join([*found, repr(inputs)]))

    one()
    return wrong


def main(count: int, seed: int = 0, *, pipelines: st.SearchStrategy[Chains] | None = None) -> None:
    """Print what is wrong."""
    with started() as spark:
        wrong = hold(spark, count, seed, pipelines)
    print(*wrong, f"{len(wrong)} of {count} pipelines are wrong", sep="\n\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
