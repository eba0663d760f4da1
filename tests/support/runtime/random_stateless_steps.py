"""Pipelines of stateless steps, drawn at random, each with the SQL of its expected rows.

Only expressions are drawn that mean the same to DuckDB. Every stream keeps its column `id`, never
null, so that a user's function has something to go by.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hypothesis import strategies as st

Columns: TypeAlias = dict[str, str]
"""Names with their types."""
Step: TypeAlias = dict[str, object]

BASE: Columns = {"id": "bigint", "n": "bigint", "s": "string", "tags": "array<bigint>"}
CODE = """
import polars as pl

def tenfold(rows):
    return rows.with_columns(pl.col("id") * 10)

def some_twice(row):
    return None if row["id"] % 3 == 0 else [row, row]
"""
MAPS = {
    ("tenfold", "batch"): ("SELECT * REPLACE (id * 10 AS id) FROM ({})", ""),
    ("some_twice", "row"): ("SELECT c.* FROM ({}) c, (VALUES (1), (2))", " WHERE id % 3 <> 0"),
}
EXPRESSIONS = {
    "bigint": ("{n} + 1", "coalesce({n}, 0) - id", "cast(length({s}) as bigint)", "{n} * {n}"),
    "string": (
        "upper({s})",
        "{s} || 'x'",
        "cast(id as string)",
        "coalesce({s}, cast({n} as string))",
    ),
    "array<bigint>": ("{tags}", "case when id % 2 = 0 then {tags} end"),
}
CONDITIONS = (
    *("{n} > 2", "{n} is null or id % 2 = 0", "id % 3 <> 1", "{s} is not null", "{s} = 'a'"),
    *("length({s}) > 1", "not {n} > {n} - id"),
)


@dataclass(frozen=True, slots=True)
class Stream:
    """A readable stream: its name in the pipeline, its columns, and a query for its rows."""

    name: str
    columns: Columns
    sql: str


@dataclass(slots=True)
class Drawn:
    """A pipeline as it grows."""

    sources: tuple[str, ...]
    steps: dict[str, Step] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    sinks: list[Stream] = field(default_factory=list)

    def text(self, parallelism: int) -> str:
        """The pipeline, but for its name."""
        sources = {
            name: {"memory": {"data": name}, "schema": {**BASE, "id": "bigint not null"}}
            for name in self.sources
        }
        sinks = {
            f"sink{at}": {"from": stream.name, "memory": {"data": stream.name}}
            for at, stream in enumerate(self.sinks)
        }
        parts = {"sources": sources, "steps": self.steps, "sinks": sinks}
        lines = [f"settings: {{parallelism: {parallelism}}}"]
        return "\n".join([*lines, *(f"{key}: {json.dumps(part)}" for key, part in parts.items())])


@st.composite
def pipelines(draw: st.DrawFn) -> Drawn:
    """One or two sources, some steps, a sink for every stream without another reader."""
    drawn = Drawn(("a", "b")[: draw(st.integers(1, 2))])
    drawn.streams = [Stream(name, BASE, f"SELECT * FROM {name}") for name in drawn.sources]
    for number in range(draw(st.integers(1, 5))):
        _add(draw, drawn, f"step{number}")
    for stream in drawn.streams:
        if stream.name not in drawn.read or draw(st.booleans()):
            drawn.sinks.append(stream)
    return drawn


def _add(draw: st.DrawFn, drawn: Drawn, name: str) -> None:
    """A step more: its clauses in the order in which they act."""
    inputs, stream = _inputs(draw, drawn.streams)
    step: Step = {"from": inputs if len(inputs) > 1 else inputs[0]}
    for clause in (_explode, _where, _map, _with, _select, _drop):
        if draw(st.integers(0, 3)) == 0:
            stream = clause(draw, step, stream)
    if len(step) == 1 and len(inputs) == 1:
        stream = _where(draw, step, stream)
    if draw(st.booleans()):
        step["parallelism"] = draw(st.integers(1, 3))
    drawn.read.update(inputs)
    drawn.steps[name] = step
    drawn.streams += _route(draw, step, stream, name) or [replace(stream, name=name)]


def _inputs(draw: st.DrawFn, streams: Sequence[Stream]) -> tuple[list[str], Stream]:
    """One stream, or two with equal columns in the same order."""
    first = draw(st.sampled_from(streams))
    columns = list(first.columns.items())
    alike = [s for s in streams if list(s.columns.items()) == columns and s.name != first.name]
    if not alike or not draw(st.booleans()):
        return [first.name], first
    second = draw(st.sampled_from(alike))
    sql = f"SELECT * FROM ({first.sql}) UNION ALL BY NAME SELECT * FROM ({second.sql})"
    return [first.name, second.name], replace(first, sql=sql)


def _fill(draw: st.DrawFn, templates: Sequence[str], columns: Columns) -> str:
    """One of the texts that can be said of these columns."""
    of = {
        "n": [name for name, type in columns.items() if type == "bigint"],
        "s": [name for name, type in columns.items() if type == "string"],
        "tags": [name for name, type in columns.items() if type == "array<bigint>"],
    }
    possible = [text for text in templates if all(of[k] for k in of if f"{{{k}}}" in text)]
    names = {key: draw(st.sampled_from(found)) for key, found in of.items() if found}
    return draw(st.sampled_from(possible)).format(**names)


def _expression(draw: st.DrawFn, columns: Columns) -> tuple[str, str]:
    """An expression and its type."""
    arrays = "array<bigint>" in columns.values()
    type = draw(st.sampled_from(list(EXPRESSIONS) if arrays else ["bigint", "string"]))
    return _fill(draw, EXPRESSIONS[type], columns), type


def _explode(draw: st.DrawFn, step: Step, stream: Stream) -> Stream:
    arrays = [name for name, type in stream.columns.items() if type == "array<bigint>"]
    if not arrays or "item" in stream.columns:
        return stream
    array, outer = draw(st.sampled_from(arrays)), draw(st.booleans())
    step["explode"] = {"item": array, "outer": outer}
    elements = f"CASE WHEN len({array}) > 0 THEN {array} ELSE [NULL] END" if outer else array
    sql = f"SELECT *, unnest({elements}) AS item FROM ({stream.sql})"
    return Stream("", {**stream.columns, "item": "bigint"}, sql)


def _where(draw: st.DrawFn, step: Step, stream: Stream) -> Stream:
    condition = _fill(draw, CONDITIONS, stream.columns)
    step["where"] = condition
    return replace(stream, sql=f"SELECT * FROM ({stream.sql}) WHERE {condition}")


def _map(draw: st.DrawFn, step: Step, stream: Stream) -> Stream:
    function, mode = draw(st.sampled_from(list(MAPS)))
    step["map"] = {"python": f"f.py:{function}", "returns": stream.columns, "mode": mode}
    return replace(stream, sql="".join(MAPS[function, mode]).format(stream.sql))


def _with(draw: st.DrawFn, step: Step, stream: Stream) -> Stream:
    added = {}
    columns = dict(stream.columns)
    for name in draw(st.lists(st.sampled_from("nsxy"), min_size=1, max_size=3, unique=True)):
        added[name], columns[name] = _expression(draw, stream.columns)
    step["with"] = added
    kept = [name for name in stream.columns if name not in added]
    listed = ", ".join([*kept, *(f"{text} AS {name}" for name, text in added.items())])
    return Stream("", columns, f"SELECT {listed} FROM ({stream.sql})")


def _select(draw: st.DrawFn, step: Step, stream: Stream) -> Stream:
    chosen, columns = {"id": "id"}, {"id": "bigint"}
    for name in draw(st.lists(st.sampled_from("nsxy"), max_size=3, unique=True)):
        chosen[name], columns[name] = _expression(draw, stream.columns)
    step["select"] = chosen
    listed = ", ".join(f"{text} AS {name}" for name, text in chosen.items())
    return Stream("", columns, f"SELECT {listed} FROM ({stream.sql})")


def _drop(draw: st.DrawFn, step: Step, stream: Stream) -> Stream:
    others = [name for name in stream.columns if name != "id"]
    if not others:
        return stream
    gone = draw(st.sampled_from(others))
    step["drop"] = gone
    columns = {name: type for name, type in stream.columns.items() if name != gone}
    return Stream("", columns, f"SELECT * EXCLUDE ({gone}) FROM ({stream.sql})")


def _route(draw: st.DrawFn, step: Step, stream: Stream, name: str) -> list[Stream]:
    """The outputs; often there is no route."""
    if draw(st.integers(0, 3)):
        return []
    conditions = {
        output: _fill(draw, CONDITIONS, stream.columns)
        for output in ("first", "second")[: draw(st.integers(1, 2))]
    }
    step["route"] = conditions
    case = " ".join(f"WHEN {text} THEN '{output}'" for output, text in conditions.items())
    return [
        Stream(
            f"{name}.{output}",
            stream.columns,
            f"SELECT * FROM ({stream.sql}) WHERE CASE {case} ELSE 'else' END = '{output}'",
        )
        for output in (*conditions, "else")
    ]
