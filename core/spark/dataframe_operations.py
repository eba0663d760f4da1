"""Operations as Spark runs them, if Spark gives a stream's final result.

Functions return None if it does not: then headrace's operator does the work inside the executors.
That holds for count windows, evictors, everything by processing time or with a ttl, and for rows
that need their position among all, which headrace numbers itself. `top` and `dedup` number the rows
of a key and retain the first ones; ties are broken by the position among all rows (ORDER), so that
column is required.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.plan.rankings import parse_ordering
from headrace.core.spark.columns import Columns, quote_column
from headrace.core.spark.expressions import (
    translate_aggregate,
    translate_column,
    translate_expression,
    types_match,
)
from headrace.core.spark.windows import (
    LAST_TIME,
    WINDOW_NUMBER,
    WindowedFrame,
    add_key_columns,
    assign_windows,
    is_native_grouping,
    key_column_names,
)
from headrace.core.types.change_columns import CHANGE, INSERT
from headrace.core.types.data_types import DATE, TIMESTAMP_TYPES, Array, Struct
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER, SEQUENCE
from headrace.core.types.row_order import ORDER_TYPE, PART_BITS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


ELEMENT_INDEX = "__number"
"""The index of a row's element in its array."""

ELEMENT = "__element"
"""The element, while its columns have no names."""


def apply_stateless(
    rows: DataFrame, operation: nodes.Operation, columns: Columns, wanted: Columns
) -> DataFrame | None:
    """Apply a stateless operation to rows with `columns`; the result has the columns `wanted`."""
    match operation:
        case nodes.Filter():
            condition = translate_expression(operation.text, operation.condition)
            return None if condition is None else _filter(rows, condition, columns)
        case nodes.ChangeColumn():
            return _add_changes(rows, wanted)
        case nodes.Project():
            return _project(rows, operation, wanted)
        case nodes.Explode():
            return _explode(rows, operation, columns, wanted)
    return None


def _filter(rows: DataFrame, condition: str, columns: Columns) -> DataFrame:
    """Return the rows that pass; a change of a table that does not pass deletes its row."""
    from pyspark.sql.functions import expr

    if DELETE not in columns:
        return rows.where(condition)
    return rows.withColumn(DELETE, expr(f"{DELETE} or not coalesce(({condition}), false)"))


def _add_changes(rows: DataFrame, wanted: Columns) -> DataFrame:
    """Return the rows of a final table as facts: each is inserted."""
    from pyspark.sql.functions import expr, lit

    changes = rows.withColumn(CHANGE, lit(INSERT))
    if ORDER in rows.columns and EVENT_TIME in rows.columns:
        order = f"'time', unix_micros({EVENT_TIME}), 'at', {ORDER}.at, 'part', {ORDER}.part"
        changes = changes.withColumn(ORDER, expr(f"named_struct({order})"))
    return changes.select(*map(quote_column, wanted))


def _project(rows: DataFrame, operation: nodes.Project, wanted: Columns) -> DataFrame | None:
    from pyspark.sql.functions import expr

    texts = [translate_column(column) for column in operation.columns]
    if None in texts:
        return None
    hidden = [quote_column(name) for name in wanted if name in HIDDEN_COLUMNS]
    named = (
        expr(text).alias(column.name)
        for text, column in zip(texts, operation.columns, strict=True)
        if text is not None
    )
    projected = rows.select(*named, *hidden)
    return projected if types_match(projected, wanted) else None


def _explode(
    rows: DataFrame, operation: nodes.Explode, columns: Columns, wanted: Columns
) -> DataFrame | None:
    from pyspark.sql.functions import expr, posexplode, posexplode_outer

    array = translate_expression(operation.text, operation.array)
    if array is None:
        return None
    added = {column.name for column in operation.added_columns}
    quoted_columns = [
        quote_column(name) for name in columns if name not in added and name not in HIDDEN_COLUMNS
    ]
    hidden = [quote_column(name) for name in columns if name in HIDDEN_COLUMNS]
    explode = posexplode_outer if operation.outer else posexplode
    elements = explode(expr(array)).alias(ELEMENT_INDEX, ELEMENT)
    exploded = rows.select(*quoted_columns, elements, *hidden)
    made = [expr(text).alias(name) for name, text in _list_made_columns(operation)]
    exploded = exploded.select(*quoted_columns, *made, ELEMENT_INDEX, *hidden)
    if ORDER in columns:
        part = f"{ORDER}.part * {1 << PART_BITS} + coalesce({ELEMENT_INDEX}, 0)"
        place = f"named_struct('time', {ORDER}.time, 'at', {ORDER}.at, 'part', {part})"
        exploded = exploded.withColumn(ORDER, expr(place))
    exploded = exploded.drop(ELEMENT_INDEX)
    return exploded if types_match(exploded, wanted) else None


def _list_made_columns(operation: nodes.Explode) -> Iterator[tuple[str, str]]:
    """Yield the names of the columns of an element, and their SQL."""
    if operation.position:
        yield operation.position, ELEMENT_INDEX
    if not operation.fields:
        yield operation.name, ELEMENT
        return
    assert isinstance(operation.array.type, Array)
    element = operation.array.type.element
    assert isinstance(element, Struct)
    for name, field in zip(operation.fields, element.fields, strict=True):
        yield name, f"{ELEMENT}.{quote_column(field.name)}"


def split_route(rows: DataFrame, route: nodes.Route, step: str) -> dict[str, DataFrame] | None:
    """Return the rows of each branch of a route, by stream; None if Spark's would differ."""
    conditions = [translate_expression(text, condition) for _, condition, text in route.branches]
    if None in conditions:
        return None
    true = [f"coalesce(({condition}), false)" for condition in conditions]
    branches = {}
    for at, stream in enumerate(route.list_streams(step)):
        before = [f"not {each}" for each in true[:at]]
        branches[stream] = rows.where(" and ".join([*before, *true[at : at + 1]]))
    return branches


ALL_ROWS_KEY = "__all"
"""The key column of an aggregate without a key: no rows then make no group."""


def aggregate_rows(
    rows: DataFrame, operation: nodes.Aggregate, wanted: Columns
) -> DataFrame | None:
    """Return the rows of an aggregate with these columns; None if Spark's would differ."""
    window, timed = operation.window, EVENT_TIME in wanted
    results, passes = _translate_aggregates(operation), _translate_having(operation)
    if ORDER in wanted or not is_native_grouping(window, operation.ttl):
        return None
    keyed = add_key_columns(rows, operation.key)
    if keyed is None or results is None or passes is None:
        return None
    keys = key_column_names(operation)
    windows = assign_windows(keyed, window.shape, keys) if window else None
    if windows is not None:
        grouped = _group_by_window(windows, keys, results)
        times = {**windows.bounds, EVENT_TIME: windows.event_time}
    else:
        grouped = _group_by_key(keyed, keys, results, timed, emits_empty=operation.emits_empty)
        times = {EVENT_TIME: EVENT_TIME} if timed else {}
    shown = _select_results(grouped, operation, times).where(passes)
    return shown if types_match(shown, wanted) else None


def _translate_aggregates(operation: nodes.Aggregate) -> list[str] | None:
    """Return the SQL of each aggregate; None if Spark cannot compute one of them."""
    keys = {
        each.name: name
        for each, name in zip(operation.key, key_column_names(operation), strict=True)
    }
    texts = [translate_aggregate(column, keys) for column in operation.columns]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def _translate_having(operation: nodes.Aggregate) -> str | None:
    having = operation.having
    return translate_expression(having.text, having.condition) if having else "true"


def _group_by_window(
    windows: WindowedFrame, keys: Sequence[str], results: Sequence[str]
) -> DataFrame:
    from pyspark.sql import functions as f

    last = (
        [f.expr(windows.last_time_aggregate).alias(LAST_TIME)]
        if windows.last_time_aggregate
        else []
    )
    return windows.rows.groupBy(*keys, WINDOW_NUMBER).agg(*_alias_aggregates(results), *last)


def _group_by_key(
    rows: DataFrame, keys: Sequence[str], results: Sequence[str], timed: bool, *, emits_empty: bool
) -> DataFrame:
    """Group rows by key alone.

    Without window bounds the time of a key is the greatest of its rows. No rows make no group,
    unless `emits_empty` says so.
    """
    from pyspark.sql import functions as f

    time = [f.max(EVENT_TIME).alias(EVENT_TIME)] if timed else []
    by = keys if keys or emits_empty else (f.lit(0).alias(ALL_ROWS_KEY),)
    return rows.groupBy(*by).agg(*_alias_aggregates(results), *time)


def _alias_aggregates(results: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.expr(text).alias(f"__a{at}") for at, text in enumerate(results)]


def _select_results(
    grouped: DataFrame, operation: nodes.Aggregate, times: Mapping[str, str]
) -> DataFrame:
    """Select the columns under the user's names, with the times of their window."""
    keys = {
        each.name: name
        for each, name in zip(operation.key, key_column_names(operation), strict=True)
    }
    results = {each.name: f"__a{at}" for at, each in enumerate(operation.columns)}
    bounds = {name: time for name, time in times.items() if name != EVENT_TIME}
    hidden = {name: time for name, time in times.items() if name == EVENT_TIME}
    columns = {**keys, **bounds, **results, **hidden}
    return grouped.selectExpr(
        *(f"{text} as {quote_column(name)}" for name, text in columns.items())
    )


RANK_COLUMN = "__number"
"""The rank of a row among those of its key, from 1."""


def rank_rows(rows: DataFrame, operation: nodes.Top, wanted: Columns) -> DataFrame | None:
    """Return the rows of a `top` with these columns; None if Spark's would differ."""
    window = operation.window
    by = _sort_columns(operation)
    keyed = add_key_columns(rows, operation.key)
    # Rows of windows get a new position, from a number that headrace derives from their key.
    placed_anew = window is not None and ORDER in wanted
    if by is None or keyed is None or placed_anew or not is_native_grouping(window, operation.ttl):
        return None
    keys, time = [*key_column_names(operation)], EVENT_TIME
    windows = assign_windows(keyed, window.shape, keys) if window else None
    if windows is not None:
        keyed, time = windows.rows, windows.event_time
        keys.append(WINDOW_NUMBER)
        if windows.last_time_aggregate:
            keyed = _add_last_time(keyed, windows.last_time_aggregate, keys)
    elif window is not None and EVENT_TIME in wanted:
        keyed, time = _add_last_time(keyed, f"max({EVENT_TIME})", keys), LAST_TIME
    if not operation.has_ties:
        by += _order_columns(descending=False)
    first = _add_rank(keyed, keys, by, operation.ties).where(f"{RANK_COLUMN} <= {operation.rows}")
    shown = _select_columns(first, wanted, {nodes.RANK_COLUMN: RANK_COLUMN, EVENT_TIME: time})
    return shown if types_match(shown, wanted) else None


def deduplicate_rows(rows: DataFrame, operation: nodes.Dedup, wanted: Columns) -> DataFrame | None:
    """Return the first or last row of each key with these columns; None if Spark's would differ."""
    from pyspark.sql import functions as f

    keyed = add_key_columns(rows, operation.key)
    if keyed is None or operation.ttl is not None or ORDER not in rows.columns:
        return None
    if operation.changes is not None:
        # The place of a change is its number, whatever its event time is.
        names = [SEQUENCE] if operation.changes.by == "sequence" else []
        by = [f.col(name).desc() for name in (*names, f"{ORDER}.at")]
        passes = f"{RANK_COLUMN} = 1 and not {DELETE}"
        if operation.changes.orders_rows:
            keyed = keyed.withColumn(ORDER, f.expr(_build_sequence_order(operation.changes)))
    else:
        by = _order_columns(descending=operation.keep == "last")
        passes = f"{RANK_COLUMN} = 1"
    shown = _select_columns(
        _add_rank(keyed, key_column_names(operation), by).where(passes), wanted, {}
    )
    return shown if types_match(shown, wanted) else None


def _build_sequence_order(changes: nodes.ChangeOrder) -> str:
    """Return the position of a row of a table, with its sequence in place of the event time."""
    assert changes.sequence is not None, "it orders the rows"
    match changes.sequence.value.type:
        case type if type == DATE:
            time = f"unix_date({SEQUENCE})"
        case type if type in TIMESTAMP_TYPES:
            time = f"unix_micros(cast({SEQUENCE} as timestamp))"
        case _:
            time = SEQUENCE
    return f"named_struct('time', bigint({time}), 'at', {ORDER}.at, 'part', {ORDER}.part)"


def _sort_columns(operation: nodes.Top) -> list[Column] | None:
    """Return the sort columns of a `top`; None if Spark cannot compute one of them."""
    from pyspark.sql import functions as f

    by = []
    for each in operation.by:
        end, _, _ = parse_ordering(each.text)
        text = translate_expression(each.text[:end], each.value)
        if text is None:
            return None
        column = f.expr(text)
        match each.descending, each.nulls_last:
            case False, False:
                by.append(column.asc_nulls_first())
            case False, True:
                by.append(column.asc_nulls_last())
            case True, False:
                by.append(column.desc_nulls_first())
            case _:
                by.append(column.desc_nulls_last())
    return by


def _order_columns(*, descending: bool) -> list[Column]:
    from pyspark.sql import functions as f

    assert isinstance(ORDER_TYPE, Struct)
    parts = [f.col(f"{ORDER}.{field.name}") for field in ORDER_TYPE.fields]
    return [part.desc() if descending else part.asc() for part in parts]


def _add_rank(
    rows: DataFrame, keys: Sequence[str], by: Sequence[Column], function: str = "row_number"
) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rank: Column = getattr(f, function)()
    return rows.withColumn(RANK_COLUMN, rank.over(Window.partitionBy(*keys).orderBy(*by)))


def _add_last_time(rows: DataFrame, last: str, keys: Sequence[str]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return rows.withColumn(LAST_TIME, f.expr(last).over(Window.partitionBy(*keys)))


def _select_columns(rows: DataFrame, wanted: Columns, others: dict[str, str]) -> DataFrame:
    """Select the wanted columns, some of them from other columns."""
    columns = ((others.get(name, quote_column(name)), quote_column(name)) for name in wanted)
    return rows.selectExpr(*(f"{text} as {name}" for text, name in columns))


def apply_keyed(
    rows: DataFrame, operation: nodes.KeyedOperation, wanted: Columns
) -> DataFrame | None:
    """Apply a keyed operation, with these columns as result; None if Spark's would differ."""
    match operation:
        case nodes.Aggregate():
            return aggregate_rows(rows, operation, wanted)
        case nodes.Top():
            return rank_rows(rows, operation, wanted)
        case nodes.Dedup():
            return deduplicate_rows(rows, operation, wanted)
        case (
            nodes.Apply()
            | nodes.Over()
            | nodes.Match()
            | nodes.Process()
            | nodes.ChangelogConversion()
        ):
            return None
