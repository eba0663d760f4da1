"""Records that msgspec decodes JSON texts to, and the columns that decoded values make.

msgspec is as strict as JSON is, and decodes to the declared types without a Python object for
anything else. What it refuses is left to the exact reader; what it accepts has the value that the
exact reader would give. Both give records, lists and dictionaries, which become columns here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from types import NoneType
from typing import Annotated, Any, Final

import msgspec
import polars as pl

from headrace.core.expressions.casts.forms import build_form
from headrace.core.expressions.flat_arrays import group_elements
from headrace.core.expressions.json.json_values import (
    find_number,
    write_text,
    write_timestamp,
)
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Array,
    Decimal,
    Field,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
    to_polars,
)
from headrace.core.types.map_entries import KEY, VALUE


class UnfitDecimal(Exception):
    """A value that is no decimal of its type: the exact reader knows what becomes of its row."""


_SECONDS = (-62_135_596_800, 253_402_300_799)
"""The seconds of the years 1 to 9999, the integers that are read as timestamps."""

_PLAIN_TEXT = Annotated[str, msgspec.Meta(min_length=1)]
_ANNOTATIONS: Final[Mapping[Type, Any]] = {
    BOOLEAN: bool,
    **{
        type: Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]
        for type, bits in ((TINYINT, 8), (SMALLINT, 16), (INT, 32), (BIGINT, 64))
    },
    **dict.fromkeys((FLOAT, DOUBLE), float),
    STRING: str | int | float | bool,
    BINARY: bytes,
    TIMESTAMP: _PLAIN_TEXT | Annotated[int, msgspec.Meta(ge=_SECONDS[0], le=_SECONDS[1])],
}
_UNSUITABLE_NAME = re.compile(r'["\\\x00-\x1f]')


def can_decode(type: Type) -> bool:
    """Whether msgspec takes the names of the fields within."""
    match type:
        case Struct(fields):
            names = [each.name for each in fields]
            if len({*names}) < len(names) or any(map(_UNSUITABLE_NAME.search, names)):
                return False
            return all(can_decode(each.type) for each in fields)
        case Array(element):
            return can_decode(element)
        case MapType(_, value):
            return can_decode(value)
    return True


@lru_cache(1024)
def define_record(fields: tuple[Field, ...]) -> type[msgspec.Struct]:
    """Return the class of records with these fields, in their order and named f0, f1, ..."""
    defined = [(f"f{at}", _annotate_nullable(each.type), None) for at, each in enumerate(fields)]
    names = {f"f{at}": each.name for at, each in enumerate(fields)}
    rename = names if can_decode(Struct(fields)) else None
    return msgspec.defstruct("JsonRecord", defined, rename=rename, gc=False)


def annotate(type: Type) -> Any:
    """Return what msgspec decodes values of the type to, apart from null."""
    match type:
        case Struct(fields):
            return define_record(fields)
        case Array(element):
            return list[_annotate_nullable(element)]  # type: ignore[misc]
        case MapType(_, value):
            return dict[str, _annotate_nullable(value)]  # type: ignore[misc]
        case Decimal():
            return msgspec.Raw
    return _ANNOTATIONS.get(type, _PLAIN_TEXT)


def _annotate_nullable(type: Type) -> Any:
    return msgspec.Raw if isinstance(type, Decimal) else annotate(type) | None


def build_column(values: Sequence[Any], type: Type) -> pl.Series:
    """Return a column of decoded values; dates and times are still texts."""
    match type:
        case Struct(fields):
            return _build_structs(values, fields)
        case Array(element):
            given = [value for value in values if value is not None]
            return _build_lists(values, build_column([*chain(*given)], element))
        case MapType(_, of):
            given = [value for value in values if value is not None]
            keys = pl.Series(KEY, [*chain(*given)], dtype=pl.String)
            inner = build_column([*chain.from_iterable(map(dict.values, given))], of)
            entries = pl.DataFrame([keys, inner.alias(VALUE)]).to_struct()
            return _build_lists(values, entries).list.to_map()
    if isinstance(type, Decimal):
        return _build_decimals(values, type)
    return pl.Series(_convert_values(values, type), dtype=to_polars(to_raw_type(type)))


def _build_structs(values: Sequence[Any], fields: Sequence[Field]) -> pl.Series:
    columns = []
    for at, field in enumerate(fields):
        get = attrgetter(f"f{at}")
        inner = [None if value is None else get(value) for value in values]
        columns.append(build_column(inner, field.type))
    return join_fields(fields, columns, _find_given(values))


def _build_lists(values: Sequence[Any], flat: pl.Series) -> pl.Series:
    """Return the flat elements as lists as long as the values."""
    counts = [0 if value is None else len(value) for value in values]
    lists = group_elements(flat, pl.Series(counts, dtype=pl.Int64))
    is_value = _find_given(values)
    return lists if is_value.all() else pl.select(pl.when(is_value).then(lists)).to_series()


def _find_given(values: Sequence[Any]) -> pl.Series:
    return pl.Series([value is not None for value in values], dtype=pl.Boolean)


def join_fields(
    fields: Sequence[Field], columns: Sequence[pl.Series], is_value: pl.Series
) -> pl.Series:
    """Return the struct of these columns, null where there is no value."""
    named = [c.alias(each.name) for c, each in zip(columns, fields, strict=True)]
    rows = pl.DataFrame(named).to_struct("row")
    if is_value.all():
        return rows
    return pl.select(pl.when(is_value).then(rows)).to_series()


def to_raw_type(type: Type) -> Type:
    """Return the type in which values are collected: dates and times are texts."""
    match type:
        case Struct(fields):
            return Struct(tuple(Field(each.name, to_raw_type(each.type)) for each in fields))
        case Array(element):
            return Array(to_raw_type(element))
        case MapType(key, value):
            return MapType(key, to_raw_type(value))
    return STRING if type in (DATE, TIMESTAMP) or is_parsed(type) else type


def is_parsed(type: Type) -> bool:
    """Whether texts of the type are cast, whatever the options."""
    return type == TIMESTAMP_NTZ or isinstance(type, Time | Interval)


def _convert_values(values: Sequence[Any], type: Type) -> Sequence[Any]:
    """Return the values as Polars takes them."""
    if type in (STRING, TIMESTAMP) and not {each.__class__ for each in values} <= {str, NoneType}:
        write = write_timestamp if type == TIMESTAMP else write_text
        return [None if value is None else write(value) for value in values]
    return values


def _build_decimals(values: Sequence[Any], type: Decimal) -> pl.Series:
    """Return the decimals in JSON numbers and texts, or in texts of numbers that fit."""
    texts = pl.Series("text", [*map(_find_number, values)], dtype=pl.String)
    found = texts.to_frame().select(_cast_decimals(type)).to_series()
    if found.null_count() > texts.null_count():
        raise UnfitDecimal
    return found


@lru_cache(64)
def _cast_decimals(type: Decimal) -> pl.Expr:
    return build_form(STRING, type, try_=False)(pl.col("text"))


def _find_number(value: msgspec.Raw | str | None) -> str | None:
    if not isinstance(value, msgspec.Raw):
        return value
    written = bytes(value)
    if written == b"null":
        return None
    if written[0] in b"-0123456789":
        return written.decode()
    if written[:1] != b'"':
        raise UnfitDecimal
    return find_number(msgspec.json.decode(written, type=str))
