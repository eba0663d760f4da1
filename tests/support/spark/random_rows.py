"""Rows for random expressions: a column or two of each type, with nulls and the ends of the ranges.

Values are as Polars holds them: dates and timestamps as days and microseconds since the epoch.
"""

from __future__ import annotations

import math
from decimal import Decimal as PythonDecimal
from random import Random
from typing import Any

import polars as pl

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
    TIMESTAMP_TYPES,
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

MONEY, WIDE, WHOLE = Decimal(10, 2), Decimal(38, 6), Decimal(20, 0)
PERSON = Struct((Field("n", INT), Field("s", STRING)))
INTS, TEXTS, DOUBLES, AMOUNTS = Array(INT), Array(STRING), Array(DOUBLE), Array(MONEY)
DATES, TIMES, MATRIX, PEOPLE = Array(DATE), Array(TIMESTAMP), Array(INTS), Array(PERSON)
DEEP = Struct((Field("who", PERSON), Field("days", DATES), Field("x", DOUBLE)))
COUNTS, NAMES = MapType(STRING, INT), MapType(INT, STRING)

COLUMNS: dict[str, Type] = {
    "y": TINYINT,
    "h": SMALLINT,
    "i": INT,
    "j": INT,
    "l": BIGINT,
    "k": BIGINT,
    "f": FLOAT,
    "x": DOUBLE,
    "z": DOUBLE,
    "m": MONEY,
    "w": WIDE,
    "v": WHOLE,
    "s": STRING,
    "two words": STRING,
    "u": STRING,
    "p": BOOLEAN,
    "q": BOOLEAN,
    "b": BINARY,
    "d": DATE,
    "e": DATE,
    "t": TIMESTAMP,
    "c": TIMESTAMP,
    "n": TIMESTAMP_NTZ,
    "aa": TIME,
    "bb": TIME,
    "o": TIMESTAMP_NTZ,
    "a": INTS,
    "g": TEXTS,
    "r": PERSON,
    "mo": COUNTS,
    "mn": NAMES,
    "doubles": DOUBLES,
    "amounts": AMOUNTS,
    "days": DATES,
    "times": TIMES,
    "matrix": MATRIX,
    "people": PEOPLE,
    "deep": DEEP,
}
"""The columns by name; no two names are equal when case is ignored."""

SCHEMA = Schema(tuple(Field(name, type) for name, type in COLUMNS.items()))

_BITS: dict[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
_DAY = 86_400_000_000
_TEXTS = """
|a|A|abc|ABC|aXbXc|hello wORLD| a |  |straße|ÀÉ|ǆ|ΑΣ|ΣΑΣ.|İı|ﬀ|é|é|日本語|😀|👩🏽‍🚀x|50%|a_b|a%b
|a,b,,c|,|a.b|.*|(x)|[1]|a\\b|'|"|1|-7|+5|1.9| 12 |1e2|12a|NaN|inf|true|no|t|2147483648
|99999999999999999999|0.125|2024-02-29|2024-2-9|2023-02-29|0001-01-01|-0044-03-15
|2024-02-29 23:59:59|2024-02-29T12:30:00.123456Z
|2024-02-29 12:30:00+02:00|12:30|2024|06/05/2024 7:08|Mon|foo123bar45
"""
TEXT = [*_TEXTS.replace("\n", "").split("|"), "a\nb", "\tx\u00a0", "\u2028", "\x00", "z" * 40]
_INTEGERS = [0, 1, -1, 2, 3, 7, 10, -10, 31, 32, 63, 64, 100, 255, 1000, 1_700_000_000]
_DOUBLES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 0.3, 2.675, 1e-5, 1e7, 123456.789]
_DOUBLES += [1e15, 9.007199254740993e15, 1e300, -1e300, 5e-324, math.nan, math.inf, -math.inf]
_DOUBLES += [2147483647.5, -2147483648.5, 9.3e18, 86399.999999, 1e-300]
_DAYS = [0, -1, 1, 59, 19_782, 19_723, 11_016, -719_162, -719_163, -141_428, -141_427, 2_932_896]
_DAYS += [2_932_897, 106_751_991, 106_751_992, 2**31 - 1, -(2**31), -25_509]
_MICROS = [0, -1, 1, 999_999, -500_000, 1_709_251_199_999_999, 1_709_164_800_000_000]
_MICROS += [-62_135_596_800_000_000, -62_135_596_800_000_001, 253_402_300_800_000_000]
_MICROS += [2**63 - 1, -(2**63), -(2**63) + 366 * _DAY, -12_219_292_800_000_000, 8_000_000_123]


_CLOCKS = [0, 1, 999_999, _DAY - 1, 45_015_500_000, 45_000_000_000, 3_600_000_000]


def frame(random: Random, rows: int) -> pl.DataFrame:
    """Draw this number of rows; one value in eight is null."""
    return pl.DataFrame([_column(name, type, random, rows) for name, type in COLUMNS.items()])


def _column(name: str, type: Type, random: Random, rows: int) -> pl.Series:
    values = [None if random.random() < 1 / 8 else value(type, random) for _ in range(rows)]
    return series(name, values, type)


def series(name: str, values: list[Any], type: Type) -> pl.Series:
    """A column of values; those of times are counts."""
    return pl.Series(name, values, dtype=_counts(type)).cast(to_polars(type))


def _counts(type: Type) -> pl.DataType:
    """The type of a column with counts for times."""
    match type:
        case Array(element):
            return pl.List(_counts(element))
        case Struct(fields):
            return pl.Struct({field.name: _counts(field.type) for field in fields})
    counts: dict[Type, pl.DataType] = {
        DATE: pl.Int32(),
        TIME: pl.Int64(),
        **dict.fromkeys(TIMESTAMP_TYPES, pl.Int64()),
    }
    return counts.get(type, to_polars(type))


def value(type: Type, random: Random) -> Any:
    """A value of that type: mostly one that is known to be hard."""
    if type in _BITS:
        return _integer(_BITS[type], random)
    match type:
        case Array(element):
            length = random.choice((0, 1, 2, 3, 5))
            return [_perhaps(element, random) for _ in range(length)]
        case MapType(key, item):
            length = random.choice((0, 1, 2, 3, 5))
            return {value(key, random): _perhaps(item, random) for _ in range(length)}
        case Struct(fields):
            return {field.name: _perhaps(field.type, random) for field in fields}
        case Decimal(precision, scale):
            digits = random.choice((1, 2, 3, scale, precision // 2, precision))
            number = random.choice((0, 1, 5, 10**digits - 1, random.randrange(10**digits)))
            return PythonDecimal(random.choice((number, -number))).scaleb(-scale)
    if type in (DOUBLE, FLOAT):
        return random.choice((*_DOUBLES, random.gauss(0, 1000), float(random.randrange(-99, 99))))
    if type == BOOLEAN:
        return random.random() < 0.5
    if type == TIME:
        return 1000 * random.choice((*_CLOCKS, random.randrange(_DAY)))
    if type == DATE:
        return random.choice((*_DAYS, random.randrange(-30_000, 30_000)))
    if type in TIMESTAMP_TYPES:
        return random.choice((*_MICROS, random.randrange(-(10**15), 2 * 10**15)))
    text = random.choice(TEXT) + (random.choice(TEXT) if random.random() < 0.2 else "")
    if type == BINARY:
        return random.choice((text.encode(), bytes([0, 255, 128]), b"\xf0\x9f"))
    return text


def _perhaps(type: Type, random: Random) -> Any:
    return None if random.random() < 1 / 6 else value(type, random)


def _integer(bits: int, random: Random) -> int:
    most = (1 << (bits - 1)) - 1
    small = [each for each in _INTEGERS if each <= most]
    ends = (most, -most - 1, most - 1, -most)
    return random.choice((*small, *ends, random.randint(-20, 20), random.randint(-most, most)))
