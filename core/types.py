"""The types of columns: Spark SQL's names, and the Polars types that carry them.

A type is a small immutable value that prints as Spark writes it, so the same text serves the YAML,
the messages and Spark's DDL. Timestamps are UTC in microseconds. `void` is the type of a bare NULL,
and the interval types are those of expressions only: no column of a pipeline has them. Of Spark's
many, three are told apart: an interval of whole days stands by itself, for a date plus days is a
date, while a date plus any other interval of days and time is a timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Type:
    """Any type; the subclasses below are all there are."""


@dataclass(frozen=True, slots=True)
class Atom(Type):
    """A type without parameters.

    >>> str(BIGINT)
    'bigint'
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal(Type):
    """An exact number of at most `precision` digits, `scale` of them after the point.

    >>> str(Decimal(10, 2))
    'decimal(10,2)'
    """

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array(Type):
    """A list of values of one type, each of which may be null.

    >>> str(Array(STRING))
    'array<string>'
    """

    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A named place in a struct or a schema."""

    name: str
    type: Type
    nullable: bool = True

    def __str__(self) -> str:
        return f"{quoted(self.name)}:{self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class Struct(Type):
    """Named fields in order.

    >>> str(Struct((Field("a", INT), Field("b", STRING, nullable=False))))
    'struct<a:int,b:string not null>'
    """

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"

    def field(self, name: str) -> Field | None:
        """The field of that name (case counts), if there is one."""
        return next((field for field in self.fields if field.name == name), None)


BOOLEAN = Atom("boolean")
TINYINT = Atom("tinyint")
SMALLINT = Atom("smallint")
INT = Atom("int")
BIGINT = Atom("bigint")
FLOAT = Atom("float")
DOUBLE = Atom("double")
STRING = Atom("string")
BINARY = Atom("binary")
DATE = Atom("date")
TIMESTAMP = Atom("timestamp")
NULL = Atom("void")
DAY = Atom("interval day")
DAY_TIME = Atom("interval day to second")
YEAR_MONTH = Atom("interval year to month")

ATOMS: dict[str, Type] = {
    str(atom): atom
    for atom in (
        *(BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP),
        *(NULL, DAY, DAY_TIME, YEAR_MONTH),
    )
}

INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
FLOATS = (FLOAT, DOUBLE)
INTERVALS = (DAY, DAY_TIME, YEAR_MONTH)

# How many decimal digits every value of an integer type fits into: Spark's rule when the two meet.
INTEGER_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}

MAX_DIGITS = 38


def is_integer(type: Type) -> bool:
    """Whether it is one of the four integer types."""
    return type in INTEGERS


def is_numeric(type: Type) -> bool:
    """Whether it is an integer, a decimal or a floating type."""
    return type in INTEGERS or type in FLOATS or isinstance(type, Decimal)


def is_ordered(type: Type) -> bool:
    """Whether headrace compares and sorts its values: single values, not arrays or structs."""
    return not isinstance(type, Array | Struct)


def quoted(name: str) -> str:
    """The name as Spark's DDL wants it: in back quotes unless it is a plain word.

    >>> quoted("price"), quoted("a b")
    ('price', '`a b`')
    """
    return name if name.isidentifier() and name.isascii() else f"`{name.replace('`', '``')}`"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a stream, in order; names are unique and their case counts."""

    fields: tuple[Field, ...]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def get(self, name: str) -> Field | None:
        """The column of that name, if there is one."""
        return next((field for field in self.fields if field.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(field.name for field in self.fields)

    def __str__(self) -> str:
        return ", ".join(
            f"{field.name} {field.type}{'' if field.nullable else ' not null'}"
            for field in self.fields
        )


def to_polars(type: Type) -> pl.DataType:
    """The Polars type that carries it; intervals travel as durations and as counts of months.

    >>> to_polars(Decimal(10, 2))
    Decimal(precision=10, scale=2)
    """
    import polars as pl

    match type:
        case Decimal(precision, scale):
            return pl.Decimal(precision, scale)
        case Array(element):
            return pl.List(to_polars(element))
        case Struct(fields):
            return pl.Struct([pl.Field(field.name, to_polars(field.type)) for field in fields])
    atoms: dict[Type, pl.DataType] = {
        BOOLEAN: pl.Boolean(),
        TINYINT: pl.Int8(),
        SMALLINT: pl.Int16(),
        INT: pl.Int32(),
        BIGINT: pl.Int64(),
        FLOAT: pl.Float32(),
        DOUBLE: pl.Float64(),
        STRING: pl.String(),
        BINARY: pl.Binary(),
        DATE: pl.Date(),
        TIMESTAMP: pl.Datetime("us", "UTC"),
        NULL: pl.Null(),
        DAY: pl.Duration("us"),
        DAY_TIME: pl.Duration("us"),
        YEAR_MONTH: pl.Int32(),
    }
    return atoms[type]
