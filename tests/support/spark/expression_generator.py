"""Random expressions, from the signatures of the function table.

Each is one that a user could write: the arguments are columns, literals and calls of the types
that are wanted, now and then of a narrower one. Not all of them are typed in the end; a constant
may have no meaning, and such an expression is drawn again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from random import Random

from headrace.core.expressions import ExpressionErrors, TypedExpression, type_expression
from headrace.core.expressions.function import SqlFunction
from headrace.core.expressions.functions import list_functions
from headrace.core.expressions.signature import (
    TYPE_VARIABLES,
    ArrayPattern,
    MapPattern,
    Parameter,
    Signature,
    TypePattern,
    TypeVariable,
    parse_signature,
)
from headrace.core.expressions.typed import ColumnReference, Constant
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_TYPES,
    NULL,
    SMALLINT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    YEAR_MONTH,
    Array,
    MapType,
    Struct,
    Type,
)
from tests.support.spark.random_literals import CONSTANTS, LITERALS, OWN, TEXTS_OF
from tests.support.spark.random_rows import (
    AMOUNTS,
    COLUMNS,
    COUNTS,
    DATES,
    DEEP,
    DOUBLES,
    INTS,
    MATRIX,
    MONEY,
    NAMES,
    PEOPLE,
    PERSON,
    SCHEMA,
    TEXTS,
    TIMES,
    WHOLE,
    WIDE,
)

ROWS: tuple[SqlFunction, ...] = list_functions()
_INFIX = frozenset("and or = <> <=> < <= > >= + - * / div % & | ^ << >> >>> ||".split())
_LIKES = frozenset(("like", "ilike", "rlike"))
_TYPES = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, WIDE, WHOLE, STRING, BOOLEAN)
MAPS = (COUNTS, NAMES)
_ARRAYS = (INTS, TEXTS, DOUBLES, AMOUNTS, DATES, TIMES, MATRIX, PEOPLE)
TYPES = (*_TYPES, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, TIME, *_ARRAYS, PERSON, DEEP, *MAPS)
_ELEMENTS = tuple(array.element for array in _ARRAYS)
_INTERVALS = (DAY, DAY_TIME, YEAR_MONTH)
_ALL = (*TYPES, *_INTERVALS)
_NARROWER = {
    BIGINT: (INT, TINYINT),
    INT: (SMALLINT,),
    DOUBLE: (INT, FLOAT, MONEY, BIGINT),
    WIDE: (INT, MONEY),
    TIMESTAMP: (DATE, TIMESTAMP_NTZ),
    TIMESTAMP_NTZ: (DATE,),
    DATE: (TIMESTAMP, TIMESTAMP_NTZ),
    DAY_TIME: (DAY,),
}


class Drawing:
    """Draws expressions; all that is random comes from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._next = 0
        self._variables: list[tuple[str, Type]] = []

    def column(self, depth: int) -> tuple[str, TypedExpression]:
        """An expression that can be a column; its outermost functions are those of the table in
        turn."""
        while True:
            row = ROWS[self._next % len(ROWS)]
            for _ in range(40):
                text = self._call(row, depth, None)
                typed = type_or_none(text)
                if (
                    typed
                    and not isinstance(typed, ColumnReference | Constant)
                    and _is_column(typed.type)
                ):
                    self._next += 1
                    return text, typed
            self._next += 1

    def call(self, row: SqlFunction) -> str:
        """A call of a function with columns and literals."""
        return self._call(row, 1, None)

    def expression(self, type: Type, depth: int) -> str:
        """An expression of about that type."""
        if type in _NARROWER and self.random.random() < 0.1:
            type = self.random.choice(_NARROWER[type])
        if depth <= 0 or self.random.random() < 0.25:
            return self._leaf(type)
        if self.random.random() < 0.08 and type not in INTERVAL_TYPES:
            return f"cast({self.expression(self.random.choice(TYPES), depth - 1)} as {type})"
        rows = _giving()[type]
        return self._call(self.random.choice(rows), depth, type) if rows else self._leaf(type)

    def _leaf(self, type: Type) -> str:
        variables = [name for name, each in self._variables if each == type]
        if variables and self.random.random() < 0.7:
            return self.random.choice(variables)
        names = [name for name, each in COLUMNS.items() if each == type]
        if names and self.random.random() < 0.75:
            name = self.random.choice(names)
            return name if name.isidentifier() else f"`{name}`"
        if self.random.random() < 0.05 and type not in INTERVAL_TYPES:
            return f"cast(null as {type})"
        if str(type) in LITERALS:
            return self.random.choice(LITERALS[str(type)])
        if isinstance(type, Struct):
            fields = (f"'{field.name}', {self._leaf(field.type)}" for field in type.fields)
            return f"named_struct({', '.join(fields)})"
        assert isinstance(type, Array), type
        return f"array({self._leaf(type.element)}, {self._leaf(type.element)})"

    def _call(self, row: SqlFunction, depth: int, type: Type | None) -> str:
        if row.name in OWN:
            return self._filled(self.random.choice(OWN[row.name]), depth, type)
        signatures = [s for s in _signatures(row) if type is None or _gives(s.result, type)]
        signature = self.random.choice(signatures)
        letters = dict(_letters(signature.result, type)) if type else {}
        arguments = list(self._arguments(row, signature, letters, depth))
        return self._written(row, arguments)

    def _arguments(
        self, row: SqlFunction, signature: Signature, letters: dict[str, Type], depth: int
    ) -> list[str]:
        arguments = []
        for parameter in signature.parameters:
            if parameter.is_optional and self.random.random() < 0.5:
                break
            for _ in range(self.random.choice((1, 2, 3)) if parameter.is_repeated else 1):
                arguments.append(self._argument(row, parameter, letters, depth))
        return arguments

    def _argument(
        self, row: SqlFunction, parameter: Parameter, letters: dict[str, Type], depth: int
    ) -> str:
        if parameter.is_constant or (row.name, parameter.name) in CONSTANTS:
            return self._constant(row, parameter)
        return self.expression(self._type(parameter.pattern, letters), depth - 1)

    def _constant(self, row: SqlFunction, parameter: Parameter) -> str:
        known = CONSTANTS.get((row.name, parameter.name))
        return self.random.choice(known or TEXTS_OF[str(parameter.pattern)])

    def _type(self, pattern: TypePattern, letters: dict[str, Type]) -> Type:
        match pattern:
            case TypeVariable(name):
                if name not in letters:
                    test = TYPE_VARIABLES[name][1]
                    letters[name] = self.random.choice(
                        [t for t in TYPES if test(t)] or [t for t in _INTERVALS if test(t)]
                    )
                return letters[name]
            case ArrayPattern(TypeVariable(name)):
                if name not in letters:
                    test = TYPE_VARIABLES[name][1]
                    letters[name] = self.random.choice([t for t in _ELEMENTS if test(t)])
                return Array(letters[name])
            case ArrayPattern(element):
                return Array(self._type(element, letters))
            case MapPattern():
                fitting = [m for m in MAPS if m.key == letters.get("K", m.key)]
                fitting = [m for m in fitting if m.value == letters.get("V", m.value)]
                map = self.random.choice(fitting or MAPS)
                letters |= {"K": map.key, "V": map.value}
                return map
        assert isinstance(pattern, Type), pattern
        return pattern

    def _filled(self, form: str, depth: int, type: Type | None) -> str:
        """A form of `OWN` with its places filled; `{T}` is the type that is wanted, or any.

        Of `{x int, k int: boolean}` the boolean may read the parameters of a lambda function.
        """
        anything = type or self.random.choice(TYPES)
        said, *parts = form.split("{")
        for part in parts:
            name, _, rest = part.partition("}")
            scope, _, wanted = name.rpartition(": ")
            before = self._variables
            declared = (each.split() for each in scope.split(", ") if each)
            self._variables = [*before, *((name, _NAMED[type]) for name, type in declared)]
            said += self.expression(_NAMED.get(wanted) or anything, depth - 1) + rest
            self._variables = before
        return said

    def _written(self, row: SqlFunction, arguments: list[str]) -> str:
        name = self.random.choice((row.name, *filter(str.isidentifier, row.aliases)))
        if name in _LIKES and row.name == name:
            escape = f" escape {arguments[2]}" if len(arguments) > 2 else ""
            return f"({arguments[0]} {name} {arguments[1]}{escape})"
        if name in _INFIX:
            return f"({arguments[0]} {name} {arguments[1]})"
        if name in ("not", "~"):
            return f"({name} {arguments[0]})"
        return f"{name}({', '.join(arguments)})"


_NAMED: dict[str, Type] = {
    "boolean": BOOLEAN,
    "int": INT,
    "bigint": BIGINT,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "ntz": TIMESTAMP_NTZ,
    "clock": TIME,
    "array": INTS,
    "texts": TEXTS,
    "struct": PERSON,
    "counts": COUNTS,
    "names": NAMES,
    "person": PERSON,
    "people": PEOPLE,
    "matrix": MATRIX,
    "doubles": DOUBLES,
    "amounts": AMOUNTS,
    "days": DATES,
    "deep": DEEP,
    "double": DOUBLE,
    "money": MONEY,
    "months": YEAR_MONTH,
    "time": DAY_TIME,
}


def type_or_none(text: str) -> TypedExpression | None:
    try:
        return type_expression(text, SCHEMA)
    except ExpressionErrors:
        return None


def _is_column(type: Type) -> bool:
    return type not in (NULL, *INTERVAL_TYPES) and "void" not in str(type)


def _signatures(row: SqlFunction) -> list[Signature]:
    return [parse_signature(text) for text in row.signatures]


_GIVING: dict[Type, list[SqlFunction]] = defaultdict(list)


def _giving() -> dict[Type, list[SqlFunction]]:
    """The rows of the table by the types that they give."""
    if not _GIVING:
        for type in _ALL:
            for row in ROWS:
                own = row.name in OWN and (
                    any("{T}" in form for form in OWN[row.name])
                    or any(_own_type(form) == type for form in OWN[row.name])
                )
                if own or (
                    row.name not in OWN and any(_gives(s.result, type) for s in _signatures(row))
                ):
                    _GIVING[type].append(row)
    return _GIVING


_LAMBDA_PLACE = re.compile(r"\{[^{}]*: (\w+)\}")


def _own_type(form: str) -> Type | None:
    typed = type_or_none(
        _LAMBDA_PLACE.sub(r"{\1}", form).format(
            **{name: f"cast(null as {t})" for name, t in _NAMED.items() if t not in INTERVAL_TYPES}
            | {"T": "0", "months": "interval 1 month", "time": "interval 1 hour"}
        )
    )
    return typed.type if typed else None


def _gives(pattern: TypePattern, type: Type) -> bool:
    match pattern:
        case TypeVariable(name):
            return TYPE_VARIABLES[name][1](type)
        case ArrayPattern(element):
            return isinstance(type, Array) and _gives(element, type.element)
        case MapPattern():
            return type in MAPS
    return pattern == type


def _letters(pattern: TypePattern, type: Type) -> Iterator[tuple[str, Type]]:
    """The types that the letters of a pattern stand for."""
    match pattern:
        case TypeVariable(name):
            yield name, type
        case ArrayPattern(element) if isinstance(type, Array):
            yield from _letters(element, type.element)
        case MapPattern() if isinstance(type, MapType):
            yield from (("K", type.key), ("V", type.value))
