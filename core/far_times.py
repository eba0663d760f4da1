"""Dates and timestamps of years that Polars cannot write, at which it panics: as texts.

Its calendar ends with the years -262143 and 262142; a timestamp goes on to 294247, a date to
5881580. Debezium writes the last microsecond of all for infinity. Whoever writes rows asks first
whether a column is far, by its least and its greatest value, which costs a microsecond, and writes
a far one in the slower way: as Polars writes the years that it knows, with all digits and a sign.
Python has the years 1 to 9999 alone: rows that become its values are looked at in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.expressions import calendar
from headrace.core.types import DATE, STRING, TIMESTAMP, Array, Field, Struct, Type

if TYPE_CHECKING:
    import polars as pl


Days: TypeAlias = "tuple[int, int]"
"""The first and the last that somebody has."""
OF_POLARS: Days = (-calendar.WRITTEN_DAYS, calendar.WRITTEN_DAYS)
OF_PYTHON: Days = (-719_162, 2_932_896)


def is_far(column: pl.Series, known: Days = OF_POLARS) -> bool:
    """Whether a time of no known day is somewhere in the column, at any depth.

    Of one row it takes 3 us; `to_physical` instead of the casts would take 20.
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
            return any(is_far(each, known) for each in _elements(column))
        case pl.Struct() as type:
            timed = (f.name for f in type.fields if _has_times(f.dtype))
            return any(is_far(column.struct.field(name), known) for name in timed)
    return False


def unfit(frame: pl.DataFrame) -> list[str | None]:
    """Of each row, the first column with a time that Python has not; nothing if none has one."""
    far = [column for column in frame if is_far(column, OF_PYTHON)]
    if not far:
        return []
    return [
        next((column.name for column in far if is_far(column.slice(at, 1), OF_PYTHON)), None)
        for at in range(frame.height)
    ]


def listed(frame: pl.DataFrame) -> list[tuple[Any, ...] | None]:
    """The rows as Python has them; None for one with a time that it has not."""
    columns = unfit(frame)
    if not columns:
        return list(frame.iter_rows())
    return [None if column else frame.row(at) for at, column in enumerate(columns)]


def near(frame: pl.DataFrame, known: Days = OF_PYTHON) -> pl.DataFrame:
    """The rows, with texts for the times of each column that has one of no known day."""
    return frame.with_columns(written(column) for column in frame if is_far(column, known))


def written(column: pl.Series) -> pl.Series:
    """The column with texts for its dates and timestamps."""
    import polars as pl

    text = _text(pl.first(), column.dtype).alias(column.name)
    return column.to_frame().select(text).to_series()


def type_written(type: Type) -> Type:
    """The type of such a column, of one of this type.

    >>> from headrace.core.types import BIGINT
    >>> str(type_written(Struct((Field("at", Array(TIMESTAMP)), Field("n", BIGINT)))))
    'struct<at:array<string>,n:bigint>'
    """
    match type:
        case Array(element):
            return Array(type_written(element))
        case Struct(fields):
            return Struct(tuple(Field(f.name, type_written(f.type), f.nullable) for f in fields))
    return STRING if type in (DATE, TIMESTAMP) else type


def _elements(column: pl.Series) -> list[pl.Series]:
    """What is in lists; also in those that are null, for there Polars panics as well."""
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
        case pl.Struct():
            return any(_has_times(field.dtype) for field in type.fields)
    return isinstance(type, pl.Date) or (isinstance(type, pl.Datetime) and type.time_unit == "us")


def _text(value: pl.Expr, type: pl.DataType | pl.datatypes.DataTypeClass) -> pl.Expr:
    import polars as pl

    if not _has_times(type):
        return value
    match type:
        case pl.List():
            return value.list.eval(_text(pl.element(), type.inner))
        case pl.Struct():
            inner = [_text(value.struct.field(f.name), f.dtype).alias(f.name) for f in type.fields]
            return pl.when(value.is_not_null()).then(pl.struct(inner))
        case pl.Date():
            return _year(value) + calendar.folded(value).dt.strftime("-%m-%d")
    rest = calendar.folded_time(value).dt.strftime("-%m-%dT%H:%M:%S%.6fZ")
    return _year(calendar.date_of(value)) + rest


def _year(date: pl.Expr) -> pl.Expr:
    """Four digits at least, with its sign where it is not one of 0 to 9999."""
    import polars as pl

    year = calendar.year(date)
    sign = pl.when(year < 0).then(pl.lit("-")).when(year > 9999).then(pl.lit("+"))
    return sign.otherwise(pl.lit("")) + year.abs().cast(pl.String).str.zfill(4)
