"""Hold random keyed steps against Spark: `python -m tests.support.spark.random_windows COUNT SEED`.

Each is run as a stream, by our operators over rows in any pieces, and by Spark as `core/spark`
has it: both must end as the same rows. Where that leaves a step to our operators there is nothing
to compare. A step has many aggregates, and its rows are of many cases, told apart by a key, so that
one job holds hundreds of windows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.core.spark.columns import Columns
from headrace.core.types.data_types import (
    DATE,
    INT,
    TIMESTAMP_TYPES,
    Array,
    Field,
    Struct,
    Type,
    to_polars,
)
from headrace.core.types.elements import EVENT_TIME, ORDER
from tests.support.aggregation import same
from tests.support.spark.keyed_rows import SCHEMA, frame
from tests.support.spark.keyed_steps import step
from tests.support.spark.session import started
from tests.support.spark.sql_values import encode
from tests.support.spark.streamed import made, natively, operation_of, planned, streamed, wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES, MOST_ROWS = 16, 40
STEPS = 12
"""The number of steps that run over the same rows."""


@dataclass(slots=True)
class Found:
    """The steps that Spark ran, those left to headrace's operators, and the differences."""

    native: int = 0
    ours: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def hold(spark: SparkSession, seed: int, steps: int, found: Found) -> None:
    """Compare this number of steps, over rows of the same seed."""
    random = Random(seed)
    rows = frame(random, CASES, MOST_ROWS)
    theirs = made(spark, planned(SCHEMA, "dedup: {key: nr}"), rows).coalesce(1).persist()
    for _ in range(steps):
        clauses = step(random)
        plan = planned(SCHEMA, clauses)
        native = natively(theirs.drop(*_unordered(plan)), plan)
        if native is None:
            found.ours.append(clauses)
            continue
        found.native += 1
        spoken = pl.from_arrow(native.toArrow())
        assert isinstance(spoken, pl.DataFrame)
        is_first = isinstance(operation_of(plan), nodes.Dedup)
        came = rows.sort("at", maintain_order=True) if is_first else rows
        ours = streamed(plan, came, random)
        wrong = [*different(plan, spoken, ours)]
        found.wrong += [f"seed {seed}: {clauses}\n  {each}" for each in wrong[:2]]
    theirs.unpersist()


def _unordered(plan: Plan) -> Sequence[str]:
    return () if plan.streams["rows"].has_row_order else (ORDER,)


def different(plan: Plan, theirs: pl.DataFrame, ours: pl.DataFrame) -> Iterator[str]:
    """Return the differences between the rows of both."""
    types = {n: t for n, t in wanted(plan).items() if n not in _untold(plan)}
    cancelling = _cancelling(plan)
    left, right = (_by_name(plan, rows, types) for rows in (theirs, ours))
    if theirs.height != len(left) or ours.height != len(right):
        yield f"rows of one name: {theirs.height} {len(left)}, {ours.height} {len(right)}"
    for name in sorted(left.keys() | right.keys()):
        if name not in left or name not in right:
            yield f"{name}: only {'ours' if name in right else 'theirs'}"
            continue
        for column, one, other in zip(types, left[name], right[name], strict=True):
            if not same(one, other, 1e-6 if column in cancelling else 0.0):
                yield f"{name} {column}: spark {one}, ours {other}"


def _cancelling(plan: Plan) -> set[str]:
    """Columns of sums that may nearly cancel out, of values that are not large."""
    operation = operation_of(plan)
    columns = operation.columns if isinstance(operation, nodes.Aggregate) else ()
    return {c.name for c in columns if re.search(r"covar|corr|regr|skewness|kurtosis", c.text)}


def _untold(plan: Plan) -> Sequence[str]:
    """Columns without meaning: the time of a row that may be replaced is its arrival time."""
    operation = operation_of(plan)
    running = isinstance(operation, nodes.Top) and operation.window is None
    return (ORDER, EVENT_TIME) if running else (ORDER,)


def _by_name(plan: Plan, rows: pl.DataFrame, types: Columns) -> dict[str, list[Any]]:
    """The coded rows, by what identifies them: key, window and rank."""
    told = {each.name for each in operation_of(plan).key} | {nodes.RANK_COLUMN, EVENT_TIME}
    shown = rows.select(pl.col(name).cast(physical(type)) for name, type in types.items())
    coded = [
        [encode(value, said(type)) for value, type in zip(row, types.values(), strict=True)]
        for row in shown.iter_rows()
    ]
    return {
        str([value for name, value in zip(types, row, strict=True) if name in told]): row
        for row in coded
    }


def physical(type: Type) -> pl.DataType:
    """The Polars type with times as numbers, which Python has not all of."""
    match type:
        case Array(element):
            return pl.List(physical(element))
        case Struct(fields):
            return pl.Struct({field.name: physical(field.type) for field in fields})
    if type in TIMESTAMP_TYPES:
        return pl.Int64()
    return pl.Int32() if type == DATE else to_polars(type)


def said(type: Type) -> str:
    """The type as the coding of values knows it."""
    match type:
        case Array(element):
            return f"array<{said(element)}>"
        case Struct(fields):
            return str(Struct(tuple(Field(f.name, f.type) for f in fields)))
    return str(INT if type == DATE else type)


def main(count: int, seed: int) -> None:
    """Steps in rounds, each over rows of its own."""
    found = Found()
    with started() as spark:
        for at in range(seed, seed + -(-count // STEPS)):
            hold(spark, at, STEPS, found)
            print(f"{found.native} native, {len(found.ours)} ours, {len(found.wrong)} wrong")
            while found.wrong:
                print(found.wrong.pop())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
