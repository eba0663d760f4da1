"""Rows of a schema from JSON texts, as Spark's `from_json` makes them.

A value that does not fit its type is NULL, and the rest of the row stays; a text that is not JSON
gives a row of NULLs. Texts are decoded by msgspec where that decides all; what it refuses is read
by the exact reader: special numbers, single quotes, a value that does not fit. Dates and times are
collected as texts, and cast column by column.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import msgspec
import polars as pl

from headrace.core.expressions.casts.forms import build_form
from headrace.core.expressions.json.json_reader import (
    DEFAULT_GRAMMAR,
    SPACES,
    InvalidJson,
    JsonGrammar,
    JsonReader,
    list_beyond_limits,
)
from headrace.core.expressions.json.json_records import (
    UnfitDecimal,
    annotate,
    build_column,
    can_decode,
    define_record,
    is_parsed,
    join_fields,
    to_raw_type,
)
from headrace.core.expressions.json.json_values import (
    BadValue,
    ValueConversion,
    convert_elements,
    convert_entries,
    find_conversion,
)
from headrace.core.types.data_types import (
    DATE,
    STRING,
    TIMESTAMP,
    Array,
    Field,
    MapType,
    Struct,
    Type,
    to_polars,
)
from headrace.core.types.lazy_dataclass import dataclass

TimeForm: TypeAlias = Callable[[pl.Expr], pl.Expr]
_Member: TypeAlias = tuple[int, ValueConversion]

_SLICE = 4096
"""The rows that exist as Python objects at a time: more make its garbage collector slow."""


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
        root: Struct | Array | MapType = type
        if isinstance(type, Struct):
            root = Struct(tuple(f for f in type.fields if f.name != options.corrupt_column))
        self._root = root
        self._convert = self._compile_root(root)
        self._null_row = define_record(root.fields)() if isinstance(root, Struct) else None
        self._decode = msgspec.json.Decoder(annotate(root)).decode if can_decode(root) else None
        starts = "{" if isinstance(type, Struct) else "{["
        self._starts = f"{starts}/" if options.grammar.comments else starts

    def convert(self, texts: pl.Series) -> pl.Series:
        """Return the values; null where the text is null or blank."""
        slices = (part.to_series() for part in texts.to_frame().iter_slices(_SLICE))
        parts = [self._convert_part(part) for part in slices]
        return pl.concat(parts) if parts else pl.Series([], dtype=to_polars(self._type))

    def _convert_part(self, texts: pl.Series) -> pl.Series:
        try:
            return self._build_part(texts, self._decode)
        except (UnfitDecimal, BadValue):
            return self._build_part(texts, None)

    def _build_part(self, texts: pl.Series, decode: Callable[[str], Any] | None) -> pl.Series:
        values: list[Any] = []
        bad: list[str | None] = [None] * len(texts)
        beyond = list_beyond_limits(texts)
        for at, text in enumerate(texts.to_list()):
            start = "" if text is None else text.lstrip(SPACES)[:1]
            if not start:
                values.append(None)
                continue
            if start in self._starts:
                try:
                    if decode and not (beyond and text in beyond):
                        values.append(decode(text))
                        continue
                except (msgspec.MsgspecError, ValueError, RecursionError):
                    pass
                values.append(self._read_exactly(text))
            else:
                self._is_bad = True
                values.append(self._null_row)
            if self._is_bad:
                self._is_bad, bad[at] = False, text
        return self._build_column(values, texts, bad)

    def _build_column(
        self, values: list[Any], texts: pl.Series, bad: list[str | None]
    ) -> pl.Series:
        times = self._options.times
        if not isinstance(self._type, Struct):
            return _cast_times(build_column(values, self._type), self._type, times)
        root = build_column(values, self._root)
        columns = {}
        for each in self._root.fields:  # type: ignore[union-attr]
            raw = root.struct.field(each.name)
            columns[each.name] = column = _cast_times(raw, each.type, times)
            if each.type in (DATE, TIMESTAMP):
                for at in (column.is_null() & raw.is_not_null()).arg_true():
                    bad[at] = texts[at]
        columns[self._options.corrupt_column] = pl.Series(bad, dtype=pl.String)
        fields = self._type.fields
        return join_fields(fields, [columns[each.name] for each in fields], root.is_not_null())

    def _read_exactly(self, text: str) -> Any:
        try:
            return self._convert(self._reader.read(text))
        except (InvalidJson, BadValue):
            self._is_bad = True
            return self._null_row

    def _compile_root(self, type: Struct | Array | MapType) -> ValueConversion:
        convert = self._compile(type)
        if not isinstance(type, Array) or not isinstance(type.element, Struct):
            return convert
        single = self._compile(type.element)
        return lambda value: [single(value)] if isinstance(value, tuple) else convert(value)

    def _compile(self, type: Type) -> ValueConversion:
        match type:
            case Struct(fields):
                return self._compile_struct(fields)
            case Array(element):
                convert = self._compile(element)
                return lambda value: convert_elements(value, convert)
            case MapType(_, inner):
                of_value = self._compile(inner)
                return lambda value: convert_entries(value, of_value)
        return find_conversion(type)

    def _compile_struct(self, fields: Sequence[Field]) -> ValueConversion:
        record = define_record(tuple(fields))
        members = {each.name: (at, self._compile(each.type)) for at, each in enumerate(fields)}

        def convert(value: object) -> msgspec.Struct:
            if not isinstance(value, tuple):
                raise BadValue
            return record(*self._convert_members(value, members, len(fields)))

        return convert

    def _convert_members(
        self, members: Iterable[tuple[str, object]], known: Mapping[str, _Member], count: int
    ) -> list[object]:
        """Return the members that fit their types."""
        found: list[object] = [None] * count
        for name, value in members:
            if name in known:
                at, convert = known[name]
                try:
                    found[at] = None if value is None else convert(value)
                except BadValue:
                    self._is_bad = True
        return found


def _cast_times(raw: pl.Series, type: Type, times: Mapping[Type, TimeForm]) -> pl.Series:
    """Cast the texts in a column that are dates or times."""
    if to_raw_type(type) == type:
        return raw
    match type:
        case Struct(fields):
            columns = raw.struct.unnest().get_columns()
            cast = [
                _cast_times(c, each.type, times) for c, each in zip(columns, fields, strict=True)
            ]
            return join_fields(type.fields, cast, raw.is_not_null()).alias(raw.name)
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
    form = build_form(STRING, type, try_=False) if is_parsed(type) else times[type]
    return raw.to_frame().select(form(pl.col(raw.name)).alias(raw.name)).to_series()


def _count_nulls(lists: pl.Series) -> pl.Series:
    return lists.list.eval(pl.element().is_null().sum()).list.first()
