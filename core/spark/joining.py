"""Joins: Spark's own if one condition says which rows match, else headrace's operator.

For the operator, rows of both sides are partitioned by key and sorted by event time, each in the
struct of its side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, FOREVER_US, ORDER
from headrace.core.expressions.typed import Column
from headrace.core.operators.operator import Chain, Output
from headrace.core.plan import nodes
from headrace.core.plan.matching import Changing, Connected, Everywhere, Within
from headrace.core.spark.columns import Columns, quoted
from headrace.core.spark.expressions import attempted, column_sql, sql, types_match
from headrace.core.spark.inside import Inside
from headrace.core.spark.operating import GROUP, Operated, normal, numbered

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

SIDE = "__side"
"""The number of a row's side."""
SIDES = ("__left", "__right")
"""The struct columns of the two sides; each is null in rows of the other side."""

UNTIL = "__until"
"""The end of a broadcast row's validity."""

AS_SPARK = {"semi": "left_semi", "anti": "left_anti"}


def native_join(
    join: nodes.Join, left: DataFrame, right: DataFrame, wanted: Columns
) -> DataFrame | None:
    """Join both sides in Spark; None if the result would differ from headrace's."""
    condition = None if isinstance(join.matching, Connected) else _condition(join)
    if condition is None:
        return None
    return attempted(lambda: _joined(join, left, right, condition, wanted))


def _condition(join: nodes.Join) -> str | None:
    """Return the SQL condition of matching rows; None if there is none."""
    meanings = [each.value for key in join.keys for each in key]
    said = sql(join.text, *meanings, *([join.only.condition] if join.only else []))
    if said is None:
        return None
    match join.matching:
        case Everywhere(in_time=True):
            at, since, until = (
                f"{quoted(join.left.name)}.{EVENT_TIME}",
                f"{quoted(join.right.name)}.{EVENT_TIME}",
                f"{quoted(join.right.name)}.{UNTIL}",
            )
            return f"({said}) and {since} <= {at} and ({until} is null or {at} < {until})"
        case Within(least_us=int(least), most_us=int(most), processing=False):
            times = (f"unix_micros({quoted(side.name)}.{EVENT_TIME})" for side in _sides(join))
            early, late = times
            return f"({said}) and {late} - {early} between {least} and {most}"
        case Within(least_us=None) | Changing(ttl=None):
            return said
    return None


def _sides(join: nodes.Join) -> tuple[nodes.Side, nodes.Side]:
    return join.left, join.right


def _joined(
    join: nodes.Join, left: DataFrame, right: DataFrame, condition: str, wanted: Columns
) -> DataFrame | None:
    from pyspark.sql.functions import expr

    if isinstance(join.matching, Everywhere):
        versions = _versions(join.matching, right)
        if versions is None:
            return None
        right = versions
    one, other = left.alias(join.left.name), right.alias(join.right.name)
    met = one.join(other, expr(condition), AS_SPARK.get(join.type, join.type))
    alone = join.type in AS_SPARK
    shown = [
        expr(f"{quoted(side.name)}.{quoted(each.value.name)}").alias(each.name)
        for side in _sides(join)[: 1 if alone else 2]
        for each in side.columns
        if isinstance(each.value, Column)
    ]
    of = [quoted(side.name) for side in _sides(join)]
    hidden = []
    if EVENT_TIME in wanted:
        both = f"greatest({of[0]}.{EVENT_TIME}, {of[1]}.{EVENT_TIME})"
        of_left = alone or isinstance(join.matching, Everywhere)
        hidden.append(expr(f"{of[0]}.{EVENT_TIME}" if of_left else both).alias(EVENT_TIME))
    rows = met.select(*shown, *hidden)
    return rows if ORDER not in wanted and types_match(rows, wanted) else None


def _versions(matching: Everywhere, rows: DataFrame) -> DataFrame | None:
    """Add the end of validity to the rows of a broadcast input."""
    from pyspark.sql.functions import expr

    if ORDER not in rows.columns:
        return None
    until = "cast(null as timestamp)"
    if matching.key is not None:
        texts = [column_sql(each) for each in matching.key]
        if None in texts:
            return None
        by = ", ".join(f"({text})" for text in texts if text) or "1"
        until = f"lead({EVENT_TIME}) over (partition by {by} order by {EVENT_TIME}, {ORDER})"
    if matching.ttl_us is not None:
        end = f"timestamp_micros(unix_micros({EVENT_TIME}) + {matching.ttl_us + 1})"
        until = f"least({until}, {end})"
    return rows.withColumn(UNTIL, expr(until))


@dataclass(frozen=True, slots=True)
class OperatedJoin(Operated):
    """headrace's join operator over the partitions of both sides."""

    def _run(self, chain: Chain, frames: Iterator[pl.DataFrame]) -> Iterator[Output]:
        for frame in frames:
            for side, name in enumerate(SIDES):
                rows = frame.filter(frame[SIDE] == side).select(name).unnest(name)
                if rows.height:
                    yield from chain.process(rows, side)
            if self.in_time and frame.height:
                yield from chain.advance(frame[EVENT_TIME].to_physical()[-1])
        yield from chain.advance(FOREVER_US)


def dealt(
    join: nodes.Join,
    sides: tuple[tuple[DataFrame, Columns], tuple[DataFrame, Columns]],
    context: Inside,
) -> DataFrame:
    """Put both sides into one frame, partitioned by key and sorted by event time."""
    everywhere = isinstance(join.matching, Everywhere)
    keys = ((), ()) if everywhere else join.keys
    plain = all(isinstance(e.value, Column) and not e.text for key in keys for e in key)
    timed = all(EVENT_TIME in columns for _, columns in sides)
    structs = [
        f"struct<{', '.join(f'{quoted(name)}: {type}' for name, type in columns.items())}>"
        for _, columns in sides
    ]
    packed = []
    for at, ((rows, columns), key) in enumerate(zip(sides, keys, strict=True)):
        grouped = _hashed(rows, key) if plain else numbered(rows, columns, key, context)
        row = f"named_struct({', '.join(f'{_text(n)}, {quoted(n)}' for n in columns)})"
        values = [f"cast(null as {struct})" for struct in structs]
        values[at] = f"cast({row} as {structs[at]})"
        time = [EVENT_TIME] if timed else []
        named = (f"{value} as {name}" for value, name in zip(values, SIDES, strict=True))
        packed.append(grouped.selectExpr(GROUP, f"{at} as {SIDE}", *time, *named))
    whole = packed[0].union(packed[1]).repartition(GROUP).drop(GROUP)
    return whole.sortWithinPartitions(EVENT_TIME) if timed else whole


def _hashed(rows: DataFrame, key: tuple[nodes.Computed, ...]) -> DataFrame:
    """Add a hash of the key, equal for equal keys of both sides."""
    from pyspark.sql.functions import hash as hashed
    from pyspark.sql.functions import lit

    if not key:
        return rows.withColumn(GROUP, lit(0))

    values = (
        normal(quoted(each.value.name), each) for each in key if isinstance(each.value, Column)
    )
    return rows.withColumn(GROUP, hashed(*values))


def _text(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
