"""Random frames, with any schema of a few columns and any values, for the tests of formats."""

from __future__ import annotations

import string
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Context
from decimal import Decimal as Number

import polars as pl
from hypothesis import strategies as st

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
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Array,
    Decimal,
    Field,
    MapType,
    Schema,
    Struct,
    Type,
    to_polars,
)

ATOMS: tuple[Type, ...] = (
    *(BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP),
    TIMESTAMP_NTZ,
    TIME,
    *(Decimal(5, 2), Decimal(38, 0), Decimal(38, 38), Decimal(20, 10)),
)
WIDE = Context(prec=38)
BITS = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}

atoms = st.sampled_from(ATOMS)


def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    """Arrays, maps and structs of these."""
    fields = st.lists(inner, min_size=1, max_size=3)
    structs = fields.map(lambda types: Struct(tuple(map(Field, string.ascii_lowercase, types))))
    return inner.map(Array) | inner.map(lambda type: MapType(STRING, type)) | structs


types = st.recursive(atoms, nested, max_leaves=4)


def schemas(of: st.SearchStrategy[Type]) -> st.SearchStrategy[Schema]:
    """A few columns."""
    columns = st.lists(of, min_size=1, max_size=4)
    return columns.map(lambda types: Schema(tuple(map(Field, string.ascii_lowercase, types))))


def values(type: Type) -> st.SearchStrategy[object]:
    """Values of a type, or null."""
    return st.none() | _values(type)


def _values(type: Type) -> st.SearchStrategy[object]:
    match type:
        case Array(element):
            return st.lists(values(element), max_size=3)
        case MapType(key, value):
            return st.dictionaries(_values(key), values(value), max_size=3)
        case Struct(fields):
            return st.fixed_dictionaries({field.name: values(field.type) for field in fields})
        case Decimal(precision, scale):
            limit = 10**precision - 1
            return st.integers(-limit, limit).map(
                lambda digits: Number(digits).scaleb(-scale, WIDE)
            )
    if type in BITS:
        limit = 2 ** (BITS[type] - 1)
        return st.integers(-limit, limit - 1)
    plain: dict[Type, st.SearchStrategy[object]] = {
        BOOLEAN: st.booleans(),
        FLOAT: st.floats(width=32),
        DOUBLE: st.floats(),
        STRING: st.text(max_size=8) | st.sampled_from(TEXTS),
        BINARY: st.binary(max_size=8),
        DATE: st.dates(date(1, 1, 1), date(9999, 12, 31)),
        TIMESTAMP: st.datetimes(datetime(1, 1, 2), timezones=st.just(UTC)),
        TIMESTAMP_NTZ: st.datetimes(datetime(1, 1, 2)),
        TIME: st.times(),
    }
    return plain[type]


TEXTS = (
    "",
    "NaN",
    '"',
    '""',
    ",",
    "\n",
    "\r",
    "\r\n",
    "a\r",
    "a,b",
    "\\",
    "NA",
    " x ",
    "é😀",
    "\0",
)


@st.composite
def frames(draw: st.DrawFn, of: st.SearchStrategy[Type] = types) -> tuple[Schema, pl.DataFrame]:
    """A schema, and rows of it."""
    schema = draw(schemas(of))
    rows = draw(st.lists(st.tuples(*(values(field.type) for field in schema)), max_size=6))
    return schema, frame(schema, rows)


def frame(schema: Schema, rows: Sequence[Sequence[object]]) -> pl.DataFrame:
    """Rows of a schema."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pl.DataFrame(
        [
            pl.Series(field.name, column, dtype=to_polars(field.type))
            for field, column in zip(schema, columns, strict=True)
        ]
    )
