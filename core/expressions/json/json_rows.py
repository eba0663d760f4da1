"""Rows of a schema from JSON texts, as Spark's `from_json` makes them.

A value that does not fit its type is NULL, and the rest of the row stays; a text that is not JSON
gives a row of NULLs. Texts are read by orjson where that decides all; an object with a name twice,
a number beyond 64 bits or a value that does not fit sends the text to the exact reader. Dates and
times are collected as texts, and cast column by column.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import orjson
import polars as pl

from headrace.core.expressions.casts.forms import build_form
from headrace.core.expressions.json.json_reader import (
    DEFAULT_GRAMMAR,
    MAX_DEPTH,
    InvalidJson,
    JsonGrammar,
    JsonReader,
)
from headrace.core.expressions.json.json_writer import format_float, format_json, quote_16_bits
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

TimeForm: TypeAlias = Callable[[pl.Expr], pl.Expr]
_Convert: TypeAlias = Callable[[object], object]


class _BadValue(Exception):
    """A value that does not fit its type."""


_SPECIAL = {
    **{"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")},
    **{"+INF": float("inf"), "+Infinity": float("inf"), "-INF": float("-inf")},
}
_LIMITS: dict[Type, tuple[int, int]] = {
    # As Jackson does, a byte from 128 to 255 is taken for a negative one.
    TINYINT: (-(2**7), 2**8),
    SMALLINT: (-(2**15), 2**15),
    INT: (-(2**31), 2**31),
    BIGINT: (-(2**63), 2**63),
}
_LARGE: Final = 2.0**63
"""From here on, orjson reads whole numbers as doubles."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLICE = 4096

NUMBER_MARK: Final = "\0"
"""The first character of the text of a time that is a number of seconds."""


@dataclass(frozen=True, slots=True)
class JsonRowOptions:
    """The options of `from_json`."""

    grammar: JsonGrammar = DEFAULT_GRAMMAR
    corrupt_column: str = "_corrupt_record"
    times: Mapping[Type, TimeForm] = field(default_factory=dict)
    """The forms that make dates and timestamps of texts."""


class JsonRows:
    """The conversion of columns of JSON texts to values of one type: a struct or an array."""

    def __init__(self, type: Struct | Array | MapType, options: JsonRowOptions) -> None:
        self._type = type
        self._options = options
        self._reader = JsonReader(options.grammar, decimal.Decimal)
        self._is_bad = False
        if isinstance(type, Struct):
            self._fields = type.fields
            self._convert: _Convert = _refuse
        else:
            self._fields = (Field("value", type),)
            self._convert = self._compile_root(type)
        self._converts = {
            each.name: self._compile(each.type)
            for each in self._fields
            if each.name != options.corrupt_column
        }
        self._is_fast = isinstance(type, Struct) and not _has_decimals(type)

    def convert(self, texts: pl.Series) -> pl.Series:
        """Return the values; null where the text is null or blank."""
        parts = [self._convert_part(part.to_series()) for part in _slice(texts)]
        return pl.concat(parts) if parts else pl.Series([], dtype=to_polars(self._type))

    def _convert_part(self, texts: pl.Series) -> pl.Series:
        columns: list[list[object]] = [[] for _ in self._fields]
        is_value: list[bool] = []
        bad: list[str | None] = []
        for text in texts.to_list():
            self._is_bad = False
            row = None if text is None or not text.strip(" \t\r\n") else self._read(text)
            is_value.append(row is not None)
            bad.append(text if self._is_bad else None)
            for name, column in zip(self._fields, columns, strict=True):
                column.append(None if row is None else row.get(name.name))
        frame = [
            self._build(each, values, texts, bad)
            for each, values in zip(self._fields, columns, strict=True)
        ]
        if not isinstance(self._type, Struct):
            return frame[0]
        return _join_fields(self._type, frame, pl.Series(is_value))

    def _build(
        self, field: Field, values: list[object], texts: pl.Series, bad: list[str | None]
    ) -> pl.Series:
        if field.name == self._options.corrupt_column and isinstance(self._type, Struct):
            return pl.Series(field.name, bad, dtype=pl.String)
        raw = pl.Series(field.name, values, dtype=to_polars(_to_raw(field.type)))
        column = _cast_times(raw, field.type, self._options.times)
        if len(bad) and field.type in (DATE, TIMESTAMP):
            for at in (column.is_null() & raw.is_not_null()).arg_true():
                bad[at] = texts[at]
        return column

    def _read(self, text: str) -> Mapping[str, object]:
        if self._is_fast and not (
            len(text) > 2 * MAX_DEPTH and text.count("[") + text.count("{") > MAX_DEPTH
        ):
            try:
                root = orjson.loads(text)
                if type(root) is dict:
                    found = {}
                    for name, convert in self._converts.items():
                        value = root.get(name)
                        found[name] = None if value is None else convert(value)
                    if not self._is_bad:
                        return found
            except (orjson.JSONDecodeError, _BadValue):
                pass
        self._is_bad = False
        try:
            return self._read_exactly(self._reader.read(text))
        except (InvalidJson, _BadValue):
            self._is_bad = True
            return {}

    def _read_exactly(self, root: object) -> Mapping[str, object]:
        if not isinstance(self._type, Struct):
            return {"value": self._convert(root)}
        if not isinstance(root, tuple):
            raise _BadValue
        return self._convert_members(root, self._converts)

    def _convert_members(
        self, members: Iterable[tuple[str, object]], converts: Mapping[str, _Convert]
    ) -> dict[str, object]:
        """Return the members that fit their types."""
        found: dict[str, object] = {}
        for name, value in members:
            convert = converts.get(name)
            if convert is not None:
                try:
                    found[name] = None if value is None else convert(value)
                except _BadValue:
                    self._is_bad = True
        return found

    def _compile_root(self, type: Array | MapType) -> _Convert:
        convert = self._compile(type)
        if isinstance(type, MapType):
            return convert
        single = self._compile(type.element) if isinstance(type.element, Struct) else None

        def convert_root(value: object) -> object:
            if single is not None and isinstance(value, tuple):
                return [single(value)]
            return convert(value)

        return convert_root

    def _compile(self, type: Type) -> _Convert:
        match type:
            case Struct(fields):
                converts = {each.name: self._compile(each.type) for each in fields}
                return lambda value: self._convert_members(_list_members(value), converts)
            case Array(element):
                convert = self._compile(element)
                return lambda value: _convert_elements(value, convert)
            case MapType(_, inner):
                of_value = self._compile(inner)
                return lambda value: _convert_entries(value, of_value)
            case Decimal(precision, scale):
                return lambda value: _convert_decimal(value, precision, scale)
        if _is_parsed(type):
            return _convert_date
        return _CONVERSIONS.get(type) or _compile_integer(type)


def _slice(texts: pl.Series) -> Iterator[pl.DataFrame]:
    """Yield slices: more rows as Python objects make its garbage collector slow."""
    return texts.to_frame().iter_slices(_SLICE)


def _refuse(value: object) -> object:
    raise _BadValue


def _list_members(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, tuple):
        return value
    if isinstance(value, dict):
        return value.items()
    raise _BadValue


def _convert_elements(value: object, convert: _Convert) -> list[object]:
    if not isinstance(value, list):
        raise _BadValue
    return [None if each is None else convert(each) for each in value]


def _convert_entries(value: object, convert: _Convert) -> dict[str, object]:
    return {name: None if each is None else convert(each) for name, each in _list_members(value)}


def _compile_integer(type: Type) -> _Convert:
    low, end = _LIMITS[type]

    def convert(value: object) -> int:
        if value.__class__ is int and low <= value < end:
            assert isinstance(value, int)
            return value - 256 if type == TINYINT and value > 127 else value
        raise _BadValue

    return convert


def _convert_double(value: object) -> float:
    if isinstance(value, str):
        if value not in _SPECIAL:
            raise _BadValue
        return _SPECIAL[value]
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise _BadValue
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _convert_boolean(value: object) -> bool:
    if value is True or value is False:
        return value
    raise _BadValue


def _convert_text(value: object) -> str:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float) and abs(value) < _LARGE:
        return format_float(value)
    if isinstance(value, float | dict | list) and _is_from_orjson(value):
        raise _BadValue
    return format_json(value, quote_16_bits)


def _is_from_orjson(value: object) -> bool:
    """Whether the value may have lost what its text needs: digits, or a name that is there twice.

    The exact reader has tuples for objects, and no floats but infinities and NaN.
    """
    if isinstance(value, list):
        return any(map(_is_from_orjson, value))
    return isinstance(value, dict) or (isinstance(value, float) and abs(value) < float("inf"))


def _convert_binary(value: object) -> bytes:
    if not isinstance(value, str):
        raise _BadValue
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise _BadValue from None


def _convert_date(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _BadValue
    return _convert_text(value)


def _convert_timestamp(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return _format_seconds(value)
    return _convert_date(value)


def _format_seconds(seconds: int) -> str:
    """Return a time as a text that a cast reads."""
    try:
        text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
    except OverflowError:
        raise _BadValue from None
    return f"{NUMBER_MARK}{text}"


_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_CONTEXT = decimal.Context(prec=1100, rounding=decimal.ROUND_HALF_UP, traps=[])


def _convert_decimal(value: object, precision: int, scale: int) -> decimal.Decimal:
    if isinstance(value, str):
        value = value.replace(",", "")
        if not _NUMBER.fullmatch(value):
            raise _BadValue
        number = decimal.Decimal(value)
    elif isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        number = decimal.Decimal(value)
    else:
        raise _BadValue
    if number and number.adjusted() >= precision:
        raise _BadValue
    rounded = number.quantize(decimal.Decimal((0, (1,), -scale)), context=_CONTEXT)
    if not rounded.is_finite() or len(rounded.as_tuple().digits) > precision:
        raise _BadValue
    return rounded


_CONVERSIONS: dict[Type, _Convert] = {
    BOOLEAN: _convert_boolean,
    FLOAT: _convert_double,
    DOUBLE: _convert_double,
    STRING: _convert_text,
    BINARY: _convert_binary,
    DATE: _convert_date,
    TIMESTAMP: _convert_timestamp,
}


def _has_decimals(type: Type) -> bool:
    match type:
        case Struct(fields):
            return any(_has_decimals(each.type) for each in fields)
        case Array(element):
            return _has_decimals(element)
        case MapType(_, value):
            return _has_decimals(value)
    return isinstance(type, Decimal)


def _to_raw(type: Type) -> Type:
    """Return the type in which values are collected: dates and times are texts."""
    match type:
        case Struct(fields):
            return Struct(tuple(Field(each.name, _to_raw(each.type)) for each in fields))
        case Array(element):
            return Array(_to_raw(element))
        case MapType(key, value):
            return MapType(key, _to_raw(value))
    return STRING if type in (DATE, TIMESTAMP) or _is_parsed(type) else type


def _is_parsed(type: Type) -> bool:
    """Whether texts of the type are cast, whatever the options."""
    return type == TIMESTAMP_NTZ or isinstance(type, Time | Interval)


def _cast_times(raw: pl.Series, type: Type, times: Mapping[Type, TimeForm]) -> pl.Series:
    """Cast the texts in a column that are dates or times."""
    if _to_raw(type) == type:
        return raw
    match type:
        case Struct(fields):
            columns = raw.struct.unnest().get_columns()
            cast = [
                _cast_times(c, each.type, times) for c, each in zip(columns, fields, strict=True)
            ]
            return _join_fields(type, cast, raw.is_not_null()).alias(raw.name)
        case Array(element):
            inner = pl.element().map_batches(
                lambda column: _cast_times(column, element, times), return_dtype=to_polars(element)
            )
            found = raw.to_frame().select(pl.col(raw.name).list.eval(inner)).to_series()
            if isinstance(element, Struct):
                return found
            # An element that does not fit its type makes the array NULL.
            same = _count_nulls(raw) == _count_nulls(found)
            return pl.select(pl.when(same).then(found)).to_series().alias(raw.name)
    if isinstance(type, MapType):
        entries = Array(Struct((Field("key", STRING), Field("value", type.value))))
        listed = raw.to_frame("m").select(pl.col("m").map.entries()).to_series()
        return _cast_times(listed, entries, times).cast(to_polars(type)).alias(raw.name)
    form = build_form(STRING, type, try_=False) if _is_parsed(type) else times[type]
    return raw.to_frame().select(form(pl.col(raw.name)).alias(raw.name)).to_series()


def _count_nulls(lists: pl.Series) -> pl.Series:
    return lists.list.eval(pl.element().is_null().sum()).list.first()


def _join_fields(type: Struct, columns: Sequence[pl.Series], is_value: pl.Series) -> pl.Series:
    """Return the struct of these columns, null where there is no value."""
    named = [c.alias(each.name) for c, each in zip(columns, type.fields, strict=True)]
    rows = pl.DataFrame(named).to_struct("row")
    if is_value.all():
        return rows
    return pl.select(pl.when(is_value).then(rows)).to_series()
