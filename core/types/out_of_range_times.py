"""Formatting of out-of-range dates and timestamps, of years at which Polars panics.

The calendar of Polars covers the years -262143 to 262142, but a timestamp can reach the year 294247
and a date 5881580; Debezium writes the last microsecond of all for infinity. Before rows are
written, each column is checked by its least and its greatest value, which costs a microsecond; a
column with out-of-range times is formatted in a slower way: as Polars formats other years, with all
digits and a sign. Python has the years 1 to 9999 only, so rows are checked in the same way before
they become Python values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.types import calendar, map_entries
from headrace.core.types.data_types import (
    DATE,
    STRING,
    TIMESTAMP_TYPES,
    Array,
    Field,
    MapType,
    Struct,
    Type,
)

if TYPE_CHECKING:
    import polars as pl


DayRange: TypeAlias = "tuple[int, int]"
"""The first and the last day of a calendar, counted from 1970-01-01."""
POLARS_DAYS: DayRange = (-calendar.FORMATTED_DAYS_LIMIT, calendar.FORMATTED_DAYS_LIMIT)
PYTHON_DAYS: DayRange = (-719_162, 2_932_896)


def has_out_of_range(column: pl.Series, known: DayRange = POLARS_DAYS) -> bool:
    """Whether the column has a time outside of the known days, at any depth of nesting.

    For one row it takes 3 us; `to_physical` instead of the casts would take 20.
    """
    import polars as pl

    match column.dtype:
        case pl.Datetime(time_unit="us"):
            first, last = known
            day_us = calendar.DAY_US
            return _is_beyond(column.cast(pl.Int64), first * day_us, (last + 1) * day_us - 1)
        case pl.Date():
            return _is_beyond(column.cast(pl.Int32), *known)
        case pl.List() as type if _has_times(type):
            return any(has_out_of_range(each, known) for each in _list_elements(column))
        case pl.Map() as type if _has_times(type):
            return has_out_of_range(column.map.entries(), known)
        case pl.Struct() as type:
            timed = (f.name for f in type.fields if _has_times(f.dtype))
            return any(has_out_of_range(column.struct.field(name), known) for name in timed)
    return False


def find_out_of_range_columns(frame: pl.DataFrame) -> list[str | None]:
    """Return for each row the first column with a time that Python lacks; empty if none has any."""
    far = [column for column in frame if has_out_of_range(column, PYTHON_DAYS)]
    if not far:
        return []
    return [
        next(
            (column.name for column in far if has_out_of_range(column.slice(at, 1), PYTHON_DAYS)),
            None,
        )
        for at in range(frame.height)
    ]


def to_python_rows(frame: pl.DataFrame) -> list[tuple[Any, ...] | None]:
    """Return the rows as Python tuples; None for a row with a time that Python lacks."""
    columns = find_out_of_range_columns(frame)
    if not columns:
        return list(frame.iter_rows())
    return [None if column else frame.row(at) for at, column in enumerate(columns)]


def format_out_of_range(frame: pl.DataFrame, known: DayRange = PYTHON_DAYS) -> pl.DataFrame:
    """Return the rows, with texts for times in each column with a time outside the known days."""
    return frame.with_columns(
        format_times(column) for column in frame if has_out_of_range(column, known)
    )


def format_times(column: pl.Series) -> pl.Series:
    """Return the column with texts for its dates and timestamps."""
    import polars as pl

    text = _format_times_expr(pl.first(), column.dtype).alias(column.name)
    return column.to_frame().select(text).to_series()


def get_formatted_type(type: Type) -> Type:
    """Return the type that a column of this type has after its times became texts.

    >>> from headrace.core.types.data_types import BIGINT, TIMESTAMP
    >>> str(get_formatted_type(Struct((Field("at", Array(TIMESTAMP)), Field("n", BIGINT)))))
    'struct<at:array<string>,n:bigint>'
    """
    match type:
        case Array(element):
            return Array(get_formatted_type(element))
        case MapType(key, value):
            return MapType(get_formatted_type(key), get_formatted_type(value))
        case Struct(fields):
            return Struct(
                tuple(Field(f.name, get_formatted_type(f.type), f.nullable) for f in fields)
            )
    return STRING if type in (DATE, *TIMESTAMP_TYPES) else type


def _list_elements(column: pl.Series) -> list[pl.Series]:
    """Return the elements of lists, also of null lists, because Polars panics at those as well."""
    import polars as pl

    if not column.null_count():
        return [column.explode()]
    seen: list[pl.Series] = []

    def look(elements: pl.Series) -> pl.Series:
        seen.append(elements)
        return elements

    each = pl.element().map_batches(look, is_elementwise=True)
    column.to_frame().select(pl.first().list.eval(each))
    return seen


def _is_beyond(numbers: pl.Series, first: int, last: int) -> bool:
    low, high = numbers.min(), numbers.max()
    return isinstance(low, int) and isinstance(high, int) and (low < first or high > last)


def _has_times(type: pl.DataType | pl.datatypes.DataTypeClass) -> bool:
    import polars as pl

    match type:
        case pl.List():
            return _has_times(type.inner)
        case pl.Map():
            return _has_times(type.key) or _has_times(type.value)
        case pl.Struct():
            return any(_has_times(field.dtype) for field in type.fields)
    return isinstance(type, pl.Date) or (isinstance(type, pl.Datetime) and type.time_unit == "us")


def _format_times_expr(value: pl.Expr, type: pl.DataType | pl.datatypes.DataTypeClass) -> pl.Expr:
    import polars as pl

    if not _has_times(type):
        return value
    match type:
        case pl.List():
            return value.list.eval(_format_times_expr(pl.element(), type.inner))
        case pl.Map():
            return map_entries.convert_entries(
                value,
                lambda key: _format_times_expr(key, type.key),
                lambda each: _format_times_expr(each, type.value),
            )
        case pl.Struct():
            inner = [
                _format_times_expr(value.struct.field(f.name), f.dtype).alias(f.name)
                for f in type.fields
            ]
            return pl.when(value.is_not_null()).then(pl.struct(inner))
        case pl.Date():
            return _format_year_expr(value) + calendar.fold_date(value).dt.strftime("-%m-%d")
    zone = "Z" if isinstance(type, pl.Datetime) and type.time_zone else ""
    rest = calendar.fold_time(value).dt.strftime(f"-%m-%dT%H:%M:%S%.6f{zone}")
    return _format_year_expr(calendar.truncate_to_day(value)) + rest


def _format_year_expr(date: pl.Expr) -> pl.Expr:
    """Return the year with at least four digits, and a sign unless it is one of 0 to 9999."""
    import polars as pl

    year = calendar.extract_year(date)
    sign = pl.when(year < 0).then(pl.lit("-")).when(year > 9999).then(pl.lit("+"))
    return sign.otherwise(pl.lit("")) + year.abs().cast(pl.String).str.zfill(4)
