"""Joins: Spark's own if one condition says which rows match, else headrace's operator.

For the operator, rows of both sides are partitioned by key and sorted by event time, each in the
struct of its side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import ColumnReference
from headrace.core.operators.operator import OperatorChain, Output
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import (
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    RuleMatch,
)
from headrace.core.spark.columns import Columns, quote_column
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.expressions import (
    translate_column,
    translate_expression,
    try_analysis,
    types_match,
)
from headrace.core.spark.partition_operators import (
    KEY_GROUP,
    PartitionOperator,
    add_key_group,
    normalize_key,
)
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

SIDE_NUMBER = "__side"
"""The number of a row's side."""
SIDE_STRUCTS = ("__left", "__right")
"""The struct columns of the two sides; each is null in rows of the other side."""

VALID_UNTIL = "__until"
"""The end of a broadcast row's validity."""

SPARK_JOIN_TYPES = {"semi": "left_semi", "anti": "left_anti"}


def join_in_spark(
    join: nodes.Join, left: DataFrame, right: DataFrame, wanted: Columns
) -> DataFrame | None:
    """Join both sides in Spark; None if the result would differ from headrace's."""
    is_ours = isinstance(join.matching, ConnectedMatch | RuleMatch)
    condition = None if is_ours else _translate_condition(join)
    if condition is None:
        return None
    return try_analysis(lambda: _select_join(join, left, right, condition, wanted))


def _translate_condition(join: nodes.Join) -> str | None:
    """Return the SQL condition of matching rows; None if there is none."""
    if join.has_later_filter:
        return None
    meanings = [each.value for key in join.keys for each in key]
    if join.residual_filter:
        meanings.append(join.residual_filter.condition)
    condition = translate_expression(join.text, *meanings, is_join=True)
    if condition is None:
        return None
    match join.matching:
        case BroadcastMatch(uses_event_time=True):
            at, since, until = (
                f"{quote_column(join.left.name)}.{EVENT_TIME}",
                f"{quote_column(join.right.name)}.{EVENT_TIME}",
                f"{quote_column(join.right.name)}.{VALID_UNTIL}",
            )
            return f"({condition}) and {since} <= {at} and ({until} is null or {at} < {until})"
        case IntervalMatch(least_us=int(least), most_us=int(most), uses_processing_time=False):
            times = (
                f"unix_micros({quote_column(side.name)}.{EVENT_TIME})" for side in _sides(join)
            )
            early, late = times
            return f"({condition}) and {late} - {early} between {least} and {most}"
        case IntervalMatch(least_us=None) | ChangelogMatch(ttl=None):
            return condition
    return None


def _sides(join: nodes.Join) -> tuple[nodes.JoinSide, nodes.JoinSide]:
    return join.left, join.right


def _select_join(
    join: nodes.Join, left: DataFrame, right: DataFrame, condition: str, wanted: Columns
) -> DataFrame | None:
    from pyspark.sql.functions import expr

    if isinstance(join.matching, BroadcastMatch):
        versions = _add_valid_until(join.matching, right)
        if versions is None:
            return None
        right = versions
    one, other = left.alias(join.left.name), right.alias(join.right.name)
    met = one.join(other, expr(condition), SPARK_JOIN_TYPES.get(join.type, join.type))
    alone = join.type in SPARK_JOIN_TYPES
    shown = [
        expr(f"{quote_column(side.name)}.{quote_column(each.value.name)}").alias(each.name)
        for side in _sides(join)[: 1 if alone else 2]
        for each in side.columns
        if isinstance(each.value, ColumnReference)
    ]
    of = [quote_column(side.name) for side in _sides(join)]
    hidden = []
    if EVENT_TIME in wanted:
        both = f"greatest({of[0]}.{EVENT_TIME}, {of[1]}.{EVENT_TIME})"
        of_left = alone or isinstance(join.matching, BroadcastMatch)
        hidden.append(expr(f"{of[0]}.{EVENT_TIME}" if of_left else both).alias(EVENT_TIME))
    rows = met.select(*shown, *hidden)
    return rows if ORDER not in wanted and types_match(rows, wanted) else None


def _add_valid_until(matching: BroadcastMatch, rows: DataFrame) -> DataFrame | None:
    """Add the end of validity to the rows of a broadcast input."""
    from pyspark.sql.functions import expr

    if ORDER not in rows.columns:
        return None
    until = "cast(null as timestamp)"
    if matching.key is not None:
        texts = [translate_column(each) for each in matching.key]
        if None in texts:
            return None
        by = ", ".join(f"({text})" for text in texts if text) or "1"
        until = f"lead({EVENT_TIME}) over (partition by {by} order by {EVENT_TIME}, {ORDER})"
    if matching.ttl_us is not None:
        end = f"timestamp_micros(unix_micros({EVENT_TIME}) + {matching.ttl_us + 1})"
        until = f"least({until}, {end})"
    return rows.withColumn(VALID_UNTIL, expr(until))


@dataclass(frozen=True, slots=True)
class PartitionJoin(PartitionOperator):
    """headrace's join operator over the partitions of both sides."""

    def _process(self, chain: OperatorChain, frames: Iterator[pl.DataFrame]) -> Iterator[Output]:
        for frame in frames:
            for side, name in enumerate(SIDE_STRUCTS):
                rows = frame.filter(frame[SIDE_NUMBER] == side).select(name).unnest(name)
                if rows.height:
                    yield from chain.process(rows, side)
            if self.is_time_ordered and frame.height:
                yield from chain.advance(frame[EVENT_TIME].to_physical()[-1])
        yield from chain.advance(MAX_WATERMARK_US)


def partition_sides(
    join: nodes.Join,
    sides: tuple[tuple[DataFrame, Columns], tuple[DataFrame, Columns]],
    context: ExecutorContext,
) -> DataFrame:
    """Put both sides into one frame, partitioned by key and sorted by event time."""
    everywhere = isinstance(join.matching, BroadcastMatch)
    keys = ((), ()) if everywhere else join.keys
    plain = all(isinstance(e.value, ColumnReference) and not e.text for key in keys for e in key)
    timed = all(EVENT_TIME in columns for _, columns in sides)
    structs = [
        f"struct<{', '.join(f'{quote_column(name)}: {type}' for name, type in columns.items())}>"
        for _, columns in sides
    ]
    packed = []
    for at, ((rows, columns), key) in enumerate(zip(sides, keys, strict=True)):
        grouped = _add_key_hash(rows, key) if plain else add_key_group(rows, columns, key, context)
        fields = (f"{_string_literal(n)}, {quote_column(n)}" for n in columns)
        row = f"named_struct({', '.join(fields)})"
        values = [f"cast(null as {struct})" for struct in structs]
        values[at] = f"cast({row} as {structs[at]})"
        time = [EVENT_TIME] if timed else []
        named = (f"{value} as {name}" for value, name in zip(values, SIDE_STRUCTS, strict=True))
        packed.append(grouped.selectExpr(KEY_GROUP, f"{at} as {SIDE_NUMBER}", *time, *named))
    whole = packed[0].union(packed[1]).repartition(KEY_GROUP).drop(KEY_GROUP)
    return whole.sortWithinPartitions(EVENT_TIME) if timed else whole


def _add_key_hash(rows: DataFrame, key: tuple[nodes.ComputedColumn, ...]) -> DataFrame:
    """Add a hash of the key, equal for equal keys of both sides."""
    from pyspark.sql.functions import hash as hashed
    from pyspark.sql.functions import lit

    if not key:
        return rows.withColumn(KEY_GROUP, lit(0))

    values = (
        normalize_key(quote_column(each.value.name), each)
        for each in key
        if isinstance(each.value, ColumnReference)
    )
    return rows.withColumn(KEY_GROUP, hashed(*values))


def _string_literal(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
