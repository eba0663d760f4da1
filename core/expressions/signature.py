"""Signatures of functions as users read them, and the binding of arguments to them.

    substring(text: string, start: int, [length: int]) -> string

A type stands for itself; `T` and `U` stand for any type, `C` for one of single values with an
order, `O` for one with an order that may also be an array or a struct, `N` for a number, `I` for an
integer, `F` for float or double, `D` for a decimal, `S` for a struct, `K` and `V` for the types of
the keys and the values of a map.
The same letter is the same type wherever it occurs: arguments of different types are widened to
their common type. `[x: int]` is optional, `x: T...` may be repeated, `x: constant string` must be
known before anything runs, `x: exact date` takes a date only, and no timestamp or text in its
place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions.casts.rules import find_refusal
from headrace.core.expressions.coercion import (
    coerce_argument,
    coerce_to,
    common_argument_type,
    common_type_of_all,
)
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import (
    Constant,
    ConstantValue,
    ExpressionError,
    TypedExpression,
    find_inputs,
)
from headrace.core.types.data_types import (
    ATOMS,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT_TYPES,
    INT,
    NULL,
    STRING,
    TIME,
    TIMESTAMP_TYPES,
    YEAR_MONTH,
    Array,
    Decimal,
    Field,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
    find_map,
    is_comparable,
    is_integer,
    is_numeric,
    is_ordered,
)
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern
from headrace.core.types.type_parser import parse_type


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """A type variable of a signature."""

    name: str


@dataclass(frozen=True, slots=True)
class ArrayPattern:
    """`array<...>` around a pattern."""

    element: TypePattern


@dataclass(frozen=True, slots=True)
class MapPattern:
    """`map<..., ...>` around two patterns."""

    key: TypePattern
    value: TypePattern


@dataclass(frozen=True, slots=True)
class StructPattern:
    """`struct<name: ..., ...>` around patterns, in a result."""

    fields: tuple[tuple[str, TypePattern], ...]


TypePattern = Type | TypeVariable | ArrayPattern | MapPattern | StructPattern


def _is_interval(type: Type, *, months: bool) -> bool:
    return isinstance(type, Interval) and type.is_months == months


# The meaning of each letter, as text and as a predicate.
TYPE_VARIABLES: dict[str, tuple[str, Callable[[Type], bool]]] = {
    "T": ("any type", lambda type: True),
    "U": ("any type", lambda type: True),
    "C": ("a type with an order", is_ordered),
    "O": ("a type with an order", is_comparable),
    "N": ("a number", is_numeric),
    "I": ("an integer", is_integer),
    "F": ("a float or double", lambda type: type in FLOAT_TYPES),
    "D": ("a decimal", lambda type: isinstance(type, Decimal)),
    "P": ("a time", lambda type: isinstance(type, Time)),
    "Q": ("an interval of days or time", lambda type: _is_interval(type, months=False)),
    "Y": ("an interval of months", lambda type: _is_interval(type, months=True)),
    "S": ("a struct", lambda type: isinstance(type, Struct)),
    "K": ("any type without a map", lambda type: find_map(type) is None),
    "V": ("any type", lambda type: True),
}

# The type of a letter when all its arguments are NULL.
_DEFAULT_TYPES: dict[str, Type] = {
    "N": DOUBLE,
    "I": INT,
    "F": DOUBLE,
    "D": Decimal(38, 18),
    "P": TIME,
    "Q": DAY_TIME,
    "Y": YEAR_MONTH,
}


# The type of a letter for a text.
_IMPLICIT_NUMBERS: dict[str, Type] = {"N": DOUBLE, "F": DOUBLE, "D": Decimal(38, 18)}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a signature."""

    name: str
    pattern: TypePattern
    is_constant: bool = False
    is_exact: bool = False
    is_optional: bool = False
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters and the result of a function, with the text from which both were parsed."""

    text: str
    name: str
    parameters: tuple[Parameter, ...]
    result: TypePattern
    is_ordered: bool = False
    """Whether the last parameter is written as `within group (order by ...)`."""

    def parameter_at(self, index: int) -> Parameter | None:
        """Return the parameter that takes the argument at this index, from 0."""
        if index < len(self.parameters):
            return self.parameters[index]
        last = self.parameters[-1] if self.parameters else None
        return last if last and last.is_repeated else None

    @property
    def minimum_arguments(self) -> int:
        """The smallest number of arguments."""
        return sum(not parameter.is_optional for parameter in self.parameters)


_SIGNATURE = compile_pattern(
    r"(?P<name>[^(\s]+)\((?P<parameters>.*?)\)"
    r"(?: within group \(order by (?P<order>.*)\))? -> (?P<result>.+)"
)
_PARAMETER = compile_pattern(
    r"(?P<open>\[)?(?P<name>\w+): (?P<constant>constant )?(?P<exact>exact )?"
    r"(?P<type>[^\].]+)(?P<more>\.\.\.)?\]?"
)


def parse_signature(text: str) -> Signature:
    """Parse a signature.

    A malformed signature is a bug in the table, found when the table is imported.

    >>> parse_signature("left(text: string, count: int) -> string").name
    'left'
    """
    match = _SIGNATURE.fullmatch(text)
    assert match, text
    none = match["parameters"] in ("", "*")
    parts = [] if none else re.split(r", (?![^<]*>)", match["parameters"])
    parts += [match["order"]] if match["order"] else []
    return Signature(
        text,
        match["name"],
        tuple(map(_parse_parameter, parts)),
        _parse_pattern(match["result"]),
        is_ordered=bool(match["order"]),
    )


def describe_type_variables(signatures: Iterable[Signature]) -> str:
    """Return the meaning of the letters in the signatures, to append to their texts."""
    used = {name for signature in signatures for name in re.findall(r"\b[A-Z]\b", signature.text)}
    words = [
        f"{name} is {TYPE_VARIABLES[name][0]}" for name in sorted(used & TYPE_VARIABLES.keys())
    ]
    return f"; {', '.join(words)}" if words else ""


def _parse_parameter(text: str) -> Parameter:
    match = _PARAMETER.fullmatch(text)
    assert match, text
    return Parameter(
        match["name"],
        _parse_pattern(match["type"]),
        is_constant=bool(match["constant"]),
        is_exact=bool(match["exact"]),
        is_optional=bool(match["open"]),
        is_repeated=bool(match["more"]),
    )


def _parse_pattern(text: str) -> TypePattern:
    if text in TYPE_VARIABLES:
        return TypeVariable(text)
    if text.startswith("array<"):
        return ArrayPattern(_parse_pattern(text[6:-1]))
    if text.startswith("map<"):
        key, value = text[4:-1].split(", ", 1)
        return MapPattern(_parse_pattern(key), _parse_pattern(value))
    if text.startswith("struct<"):
        fields = (field.split(": ", 1) for field in text[7:-1].split(", "))
        return StructPattern(tuple((name, _parse_pattern(inner)) for name, inner in fields))
    return ATOMS.get(text) or parse_type(text)[0]


@dataclass(frozen=True, slots=True)
class SortDirection:
    """The direction of an expression of `within group (order by ...)`.

    `is_argument`: whether the expression is the first argument of the call.
    """

    is_descending: bool
    nulls_last: bool
    is_argument: bool


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """The arguments of a call as one signature takes them, widened and cast.

    With `directions` the last arguments are those of `within group (order by ...)`.
    """

    arguments: tuple[TypedExpression, ...]
    constants: dict[int, ConstantValue]
    type_arguments: dict[str, Type]
    result: Type
    directions: tuple[SortDirection, ...] = ()

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the arguments after widening."""
        return tuple(argument.type for argument in self.arguments)

    @property
    def column_arguments(self) -> tuple[TypedExpression, ...]:
        """The arguments that are computed per row: all but the constants."""
        return tuple(a for i, a in enumerate(self.arguments) if i not in self.constants)


@dataclass(frozen=True, slots=True)
class SignatureMismatch:
    """The reason why a signature does not take the arguments.

    `index` is None when the number of arguments is wrong.
    """

    index: int | None
    expected: str
    hint: str = ""


def bind_arguments(
    signature: Signature, arguments: tuple[TypedExpression, ...], *, implicit: bool = False
) -> BoundArguments | SignatureMismatch:
    """Bind the arguments to the signature, or return the first mismatch.

    With `implicit` they are converted as Spark does implicitly, otherwise they are only widened.
    """
    coerce = coerce_argument if implicit else coerce_to
    parameters = [signature.parameter_at(index) for index in range(len(arguments))]
    if len(arguments) < signature.minimum_arguments or None in parameters:
        return SignatureMismatch(None, _describe_count(signature))
    pairs = [(p, a) for p, a in zip(parameters, arguments, strict=True) if p]
    letters = _resolve_type_variables(pairs, implicit=implicit)
    if isinstance(letters, SignatureMismatch):
        return letters
    bound: list[TypedExpression] = []
    constants: dict[int, ConstantValue] = {}
    for index, (parameter, argument) in enumerate(pairs):
        target = _instantiate(parameter.pattern, letters)
        fits = not parameter.is_exact or argument.type in (target, NULL)
        bound_argument = coerce(argument, target) if fits else None
        if bound_argument is None:
            return SignatureMismatch(index, str(target), _conversion_hint(argument, target))
        if parameter.is_constant:
            if find_inputs(bound_argument):
                return SignatureMismatch(
                    index, f"a constant {target}", "a column is not allowed here"
                )
            bound_argument = evaluate_constant(bound_argument)
            constants[index] = bound_argument.value
        bound.append(bound_argument)
    return BoundArguments(tuple(bound), constants, letters, _instantiate(signature.result, letters))


def _resolve_type_variables(
    pairs: list[tuple[Parameter, TypedExpression]], *, implicit: bool
) -> dict[str, Type] | SignatureMismatch:
    """Resolve each letter to the common type of the arguments that it stands for."""
    seen: dict[str, list[TypedExpression]] = {}
    for index, (parameter, argument) in enumerate(pairs):
        for letter, part in _match_type_variables(parameter.pattern, argument):
            if part is None:
                wanted = "a map" if isinstance(parameter.pattern, MapPattern) else "an array"
                return SignatureMismatch(index, wanted)
            seen.setdefault(letter, []).append(part)
            wanted, test = TYPE_VARIABLES[letter]
            common = _find_common_type(letter, seen[letter], implicit=implicit)
            if common is None:
                first = seen[letter][0].type
                return SignatureMismatch(index, f"a type compatible with {first}")
            if common != NULL and not test(common):
                return SignatureMismatch(index, wanted, _conversion_hint(argument, None))
    found = {
        letter: _find_common_type(letter, arguments, implicit=implicit) or NULL
        for letter, arguments in seen.items()
    }
    return {
        letter: _DEFAULT_TYPES.get(letter, NULL) if t == NULL else t for letter, t in found.items()
    }


def _find_common_type(
    letter: str, arguments: list[TypedExpression], *, implicit: bool
) -> Type | None:
    """Return the type of a letter for these arguments; a text that stands for a number is one."""
    if not implicit:
        return common_argument_type(arguments)
    number = _IMPLICIT_NUMBERS.get(letter)
    return common_type_of_all(number if number and a.type == STRING else a.type for a in arguments)


def _match_type_variables(
    pattern: TypePattern, argument: TypedExpression
) -> Iterator[tuple[str, TypedExpression | None]]:
    """Yield the letters of a pattern, each with its argument, or with the element of an array."""
    match pattern:
        case TypeVariable(name):
            yield name, argument
        case ArrayPattern(element):
            inner = argument.type.element if isinstance(argument.type, Array) else argument.type
            fits = isinstance(argument.type, Array) or argument.type == NULL
            part = TypedExpression(inner, True, argument.span) if fits else None
            if part:
                yield from _match_type_variables(element, part)
            elif isinstance(element, TypeVariable):
                yield element.name, None
        case MapPattern(key, value):
            for of, found in zip((key, value), _take_entry(argument), strict=True):
                if found:
                    yield from _match_type_variables(of, found)
                elif isinstance(of, TypeVariable):
                    yield of.name, None


def _take_entry(
    argument: TypedExpression,
) -> tuple[TypedExpression | None, TypedExpression | None]:
    """Return a key and a value of a map, of which only the types matter; None if it is none."""
    if argument.type == NULL:
        return argument, argument
    if not isinstance(argument.type, MapType):
        return None, None
    key = TypedExpression(argument.type.key, False, argument.span)
    return key, TypedExpression(argument.type.value, True, argument.span)


def _instantiate(pattern: TypePattern, letters: dict[str, Type]) -> Type:
    match pattern:
        case TypeVariable(name):
            return letters.get(name, NULL)
        case ArrayPattern(element):
            return Array(_instantiate(element, letters))
        case MapPattern(key, value):
            return MapType(_instantiate(key, letters), _instantiate(value, letters))
        case StructPattern(fields):
            return Struct(tuple(Field(name, _instantiate(p, letters)) for name, p in fields))
    return pattern


def evaluate_constant(typed: TypedExpression) -> Constant:
    """Evaluate an expression that reads no column."""
    import polars as pl

    if isinstance(typed, Constant):
        return typed
    try:
        value = pl.select(to_expr(typed)).item()
    except ExpressionFailure as error:
        raise ExpressionError(error.message, typed.span) from None
    return Constant(typed.type, True, typed.span, value)


def _describe_count(signature: Signature) -> str:
    maximum = len(signature.parameters)
    if any(parameter.is_repeated for parameter in signature.parameters):
        return f"at least {signature.minimum_arguments}"
    return (
        str(maximum)
        if signature.minimum_arguments == maximum
        else f"{signature.minimum_arguments} to {maximum}"
    )


def _conversion_hint(argument: TypedExpression, target: Type | None) -> str:
    if target is None:
        return ""
    if target in (DATE, *TIMESTAMP_TYPES) and argument.type == STRING:
        return f"to_{target}(...) reads text"
    if target == BOOLEAN:
        return "compare it: ... <> 0" if is_numeric(argument.type) else "compare it"
    if find_refusal(argument.type, target, try_=False):
        return ""
    return f"cast(... as {target}) converts explicitly"
