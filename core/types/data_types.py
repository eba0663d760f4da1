"""The data types of columns: Spark SQL's names, and the Polars types that represent them.

A type is a small immutable value that prints as Spark writes it, so the same text serves the YAML,
the messages and Spark's DDL. Timestamps are UTC in microseconds; a `timestamp_ntz` is what a clock
shows somewhere, without a time zone. `void` is the type of a bare NULL.
`void` and the interval types occur only in expressions, never as the type of a pipeline's column.
An interval is a number of months or of microseconds; its fields decide how it is written, and that
a date plus whole days is a date, while a date plus days and time is a timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


JAVA_DIGITS = 34
"""The digits that Java keeps of a decimal number in a computation."""


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
class Time(Type):
    """A time of day with at most `precision` digits of its seconds' fraction.

    >>> str(Time(6))
    'time(6)'
    """

    precision: int

    def __str__(self) -> str:
        return f"time({self.precision})"


MONTH_FIELDS, TIME_FIELDS = ("year", "month"), ("day", "hour", "minute", "second")
"""The fields of the two kinds of intervals."""


@dataclass(frozen=True, slots=True)
class Interval(Type):
    """A length of time, in months or in microseconds, written in the fields from first to last.

    >>> str(Interval("day", "second")), str(Interval("hour", "hour"))
    ('interval day to second', 'interval hour')
    """

    first: str
    last: str

    @property
    def is_months(self) -> bool:
        """Whether it is a number of months, and not of microseconds."""
        return self.first in MONTH_FIELDS

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields in which it is written."""
        names = MONTH_FIELDS if self.is_months else TIME_FIELDS
        return names[names.index(self.first) : names.index(self.last) + 1]

    def __str__(self) -> str:
        return f"interval {self.first}{'' if self.first == self.last else f' to {self.last}'}"


@dataclass(frozen=True, slots=True)
class Array(Type):
    """A list of values of one type; any value may be null.

    >>> str(Array(STRING))
    'array<string>'
    """

    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(Type):
    """Entries of a key and a value, in order; no key occurs twice or is null, any value may be
    null.

    >>> str(MapType(STRING, Array(INT)))
    'map<string,array<int>>'
    """

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A named field of a struct, or a column of a schema."""

    name: str
    type: Type
    nullable: bool = True

    def __str__(self) -> str:
        return f"{quote_name(self.name)}:{self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class Struct(Type):
    """Named fields in order.

    >>> str(Struct((Field("a", INT), Field("b", STRING, nullable=False))))
    'struct<a:int,b:string not null>'
    """

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"

    def get(self, name: str) -> Field | None:
        """Return the field of that name (case-sensitive), if there is one."""
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


TIMESTAMP_NTZ = Atom("timestamp_ntz")


TIME = Time(6)


NULL = Atom("void")


DAY = Interval("day", "day")


DAY_TIME = Interval("day", "second")


YEAR_MONTH = Interval("year", "month")


INTERVAL_TYPES: tuple[Interval, ...] = tuple(
    Interval(first, last)
    for fields in (MONTH_FIELDS, TIME_FIELDS)
    for index, first in enumerate(fields)
    for last in fields[index:]
)


MAX_TIME_DIGITS = 6
"""The digits of the fraction of a time's second."""


ATOMS: dict[str, Type] = {
    str(atom): atom
    for atom in (
        *(BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP),
        *(TIMESTAMP_NTZ, TIME),
        *(NULL, *INTERVAL_TYPES),
    )
}


INTEGER_TYPES = (TINYINT, SMALLINT, INT, BIGINT)


FLOAT_TYPES = (FLOAT, DOUBLE)


TIMESTAMP_TYPES = (TIMESTAMP, TIMESTAMP_NTZ)


# The decimal digits that hold every value of an integer type: Spark's rule for mixing the two.
INTEGER_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}


MAX_DIGITS = 38


def is_integer(type: Type) -> bool:
    """Whether the type is one of the four integer types."""
    return type in INTEGER_TYPES


def is_numeric(type: Type) -> bool:
    """Whether the type is an integer, decimal or floating-point type."""
    return type in INTEGER_TYPES or type in FLOAT_TYPES or isinstance(type, Decimal)


def is_nested(type: Type) -> bool:
    """Whether a value of the type contains values: an array, a map or a struct."""
    return isinstance(type, Array | MapType | Struct)


def is_ordered(type: Type) -> bool:
    """Whether values can be compared and sorted: single values, not arrays, maps or structs."""
    return not is_nested(type)


def is_comparable(type: Type) -> bool:
    """Whether values can be compared and sorted, also by what is inside of them: all but maps."""
    return find_map(type) is None


def find_map(type: Type) -> MapType | None:
    """Return the first map in the type, which may be the type itself."""
    match type:
        case MapType():
            return type
        case Array(element):
            return find_map(element)
        case Struct(fields):
            return next(filter(None, (find_map(field.type) for field in fields)), None)
    return None


def strip_nullability(type: Type) -> Type:
    """Return the type without the nullability of nested values.

    >>> str(strip_nullability(Struct((Field("a", INT, nullable=False),))))
    'struct<a:int>'
    """
    match type:
        case Array(element):
            return Array(strip_nullability(element))
        case MapType(key, value):
            return MapType(strip_nullability(key), strip_nullability(value))
        case Struct(fields):
            return Struct(tuple(Field(each.name, strip_nullability(each.type)) for each in fields))
    return type


def quote_name(name: str) -> str:
    """Quote a name for Spark's DDL: in back quotes unless it is a plain word.

    >>> quote_name("price"), quote_name("a b")
    ('price', '`a b`')
    """
    return name if name.isidentifier() and name.isascii() else f"`{name.replace('`', '``')}`"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a stream, in order; names are unique and case-sensitive."""

    fields: tuple[Field, ...]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def get(self, name: str) -> Field | None:
        """Return the column of that name, if there is one."""
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
    """Return the Polars type that represents a type.

    Intervals are durations, or a number of months.

    >>> to_polars(Decimal(10, 2))
    Decimal(precision=10, scale=2)
    """
    import polars as pl

    if (atom := _get_polars_atoms().get(type)) is not None:
        return atom
    match type:
        case Decimal(precision, scale):
            return pl.Decimal(precision, scale)
        case Time():
            return pl.Time()
        case Interval():
            return pl.Int32() if type.is_months else pl.Duration("us")
        case Array(element):
            return pl.List(to_polars(element))
        case MapType(key, value):
            # An empty map has keys of the type `void`, of which Polars has no keys.
            return pl.Map(to_polars(BOOLEAN if key == NULL else key), to_polars(value))
        case Struct(fields):
            return pl.Struct([pl.Field(field.name, to_polars(field.type)) for field in fields])
    raise KeyError(type)


@cache
def _get_polars_atoms() -> Mapping[Type, pl.DataType]:
    """Return the Polars types of the types without parameters."""
    import polars as pl

    return {
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
        TIMESTAMP_NTZ: pl.Datetime("us"),
        NULL: pl.Null(),
    }
