"""Rows of a table as bytes, for a store of plain keys and values.

A row is one line of JSON in which every value is a text that converts back exactly: `{"0":"17","1":
null}`. Polars writes and reads the lines of many rows at once, without Python code for each row. A
row of two numbers, a text and a list takes 0.3 us to write and 1.0 us to read; MessagePack from
Python took 1.2 us and 7 us, most of it for the tuples. Columns are numbered, because their names
are user-defined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.types.map_entries import KEY, VALUE

if TYPE_CHECKING:
    import polars as pl


def encode_rows(rows: pl.DataFrame) -> list[bytes]:
    """Encode each row as bytes; there must be at least one column."""
    import polars as pl

    texts = [
        _to_text(pl.col(name), type).alias(str(number))
        for number, (name, type) in enumerate(rows.schema.items())
    ]
    line = pl.struct(texts).struct.json_encode().cast(pl.Binary).alias("line")
    return rows.select(line)["line"].to_list()


def decode_rows(lines: Sequence[bytes], columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Decode at least one line to rows; columns missing in a line are null."""
    import polars as pl

    schema = {str(number): _get_text_type(type) for number, type in enumerate(columns.values())}
    texts = pl.read_ndjson(b"\n".join(lines), schema=schema)
    return texts.select(
        _from_text(pl.col(str(number)), type).alias(name)
        for number, (name, type) in enumerate(columns.items())
    )


def _get_text_type(type: pl.DataType) -> pl.DataType:
    """Return the type in which values are written: texts, and lists and structs of texts.

    A map is the list of its entries.
    """
    import polars as pl

    match type:
        case pl.List() | pl.Array():
            return pl.List(_get_text_type(get_inner_type(type)))
        case pl.Map():
            parts = map(_get_text_type, get_entry_types(type))
            return pl.List(pl.Struct({str(n): part for n, part in enumerate(parts)}))
        case pl.Struct(fields=fields):
            return pl.Struct(
                {str(n): _get_text_type(instantiate_type(f.dtype)) for n, f in enumerate(fields)}
            )
    return pl.String()


def _to_text(value: pl.Expr, type: pl.DataType) -> pl.Expr:
    import polars as pl

    match type:
        case pl.String():
            return value
        case pl.Binary():
            return value.bin.encode("hex")
        case pl.Boolean() | pl.Date() | pl.Datetime() | pl.Duration() | pl.Time():
            return value.to_physical().cast(pl.Int64).cast(pl.String)
        case pl.Array():
            return _to_text(value.arr.to_list(), pl.List(get_inner_type(type)))
        case pl.List():
            return value.list.eval(_to_text(pl.element(), get_inner_type(type)))
        case pl.Map():
            names = zip((KEY, VALUE), get_entry_types(type), strict=True)
            texts = [
                _to_text(pl.element().struct.field(name), part).alias(str(n))
                for n, (name, part) in enumerate(names)
            ]
            return value.map.entries().list.eval(pl.struct(texts))
        case pl.Struct(fields=fields):
            texts = [
                _to_text(value.struct.field(f.name), instantiate_type(f.dtype)).alias(str(n))
                for n, f in enumerate(fields)
            ]
            return pl.when(value.is_not_null()).then(pl.struct(texts))
    return value.cast(pl.String)


def _from_text(text: pl.Expr, type: pl.DataType) -> pl.Expr:
    import polars as pl

    match type:
        case pl.String():
            return text
        case pl.Binary():
            return text.str.decode("hex")
        case pl.Boolean() | pl.Date() | pl.Datetime() | pl.Duration() | pl.Time():
            return text.cast(pl.Int64).cast(type)
        case pl.Array(size=size):
            return _from_text(text, pl.List(get_inner_type(type))).list.to_array(size)
        case pl.List():
            return text.list.eval(_from_text(pl.element(), get_inner_type(type)))
        case pl.Map():
            names = zip((KEY, VALUE), get_entry_types(type), strict=True)
            values = [
                _from_text(pl.element().struct.field(str(n)), part).alias(name)
                for n, (name, part) in enumerate(names)
            ]
            return text.list.eval(pl.struct(values)).list.to_map()
        case pl.Struct(fields=fields):
            values = [
                _from_text(text.struct.field(str(n)), instantiate_type(f.dtype)).alias(f.name)
                for n, f in enumerate(fields)
            ]
            return pl.when(text.is_not_null()).then(pl.struct(values))
        case pl.Null():
            return pl.lit(None)
    return text.cast(type)


def get_inner_type(type: pl.List | pl.Array) -> pl.DataType:
    """Return the type of the elements."""
    return instantiate_type(type.inner)


def get_entry_types(type: pl.Map) -> tuple[pl.DataType, pl.DataType]:
    """Return the types of the keys and of the values."""
    return instantiate_type(type.key), instantiate_type(type.value)


def instantiate_type(type: pl.DataType | pl.datatypes.DataTypeClass) -> pl.DataType:
    """Return a type as an instance: Polars also names a type without parameters by its class."""
    import polars as pl

    return type if isinstance(type, pl.DataType) else type()
