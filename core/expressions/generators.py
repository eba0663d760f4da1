"""Generators: the functions that make rows of one row, as in `explode: posexplode(items)`.

Each becomes an array, of which every element is a row: its columns are the element, or the fields
of a struct, after the position if that is wanted. Spark's names of the columns are the default.

Tests: tests/core/plan/test_generators.py, tests/core/expressions/test_spark_examples.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing.syntax_tree import CallNode, SyntaxNode
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    Span,
    TypedExpression,
)
from headrace.core.types.data_types import INT, NULL, STRING, Array, Field, MapType, Struct, Type
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

if TYPE_CHECKING:
    import polars as pl

ELEMENT_COLUMN, POSITION_COLUMN = "col", "pos"
"""Spark's names of the columns of `posexplode`."""


@dataclass(frozen=True, slots=True)
class Generator:
    """The array of the rows that are made of a row, and the columns of an element."""

    array: TypedExpression
    columns: tuple[Field, ...]
    """The columns, the position first if there is one."""
    has_position: bool = False
    is_struct: bool = False
    """Whether the columns are the fields of the elements."""
    outer: bool = False
    array_span: Span | None = None
    """The characters of the array in the text, if it is written there."""

    def rename(self, names: Sequence[str]) -> tuple[Field, ...]:
        """Return the columns with other names."""
        return tuple(
            Field(name, each.type, each.nullable)
            for name, each in zip(names, self.columns, strict=True)
        )


_ALIASES = compile_pattern(
    r"\)\s+as\s+(?:(?P<one>\w+|`[^`]+`)|\((?P<many>\s*(?:\w+|`[^`]+`)\s*(?:,\s*(?:\w+|`[^`]+`)\s*)*)\))\s*$",
    re.IGNORECASE,
)


def split_aliases(text: str) -> tuple[int, tuple[str, ...]]:
    """Return the end of the call in a text such as `posexplode(items) as (at, item)`, and names.

    >>> split_aliases("explode(a) as item"), split_aliases("explode(a)")
    ((10, ('item',)), (10, ()))
    """
    found = _ALIASES.search(text)
    if found is None:
        return len(text), ()
    names = [found["one"]] if found["one"] else found["many"].split(",")
    return found.start() + 1, tuple(name.strip().strip("`") for name in names)


_ARGUMENT_NAME = compile_pattern(r"^\s*\w+\s*\(\s*((?:collection|input)\s*=>)", re.IGNORECASE)


def blank_argument_name(text: str) -> str:
    """Return the text of a call with blanks for the name of its argument, as in `input => items`.

    >>> blank_argument_name("inline(input => items)")
    'inline(         items)'
    """
    found = _ARGUMENT_NAME.match(text)
    if found is None:
        return text
    return text[: found.start(1)] + " " * len(found[1]) + text[found.end(1) :]


def is_generator(node: SyntaxNode) -> bool:
    """Whether the expression is the call of a generator."""
    return isinstance(node, CallNode) and node.name in GENERATORS


def resolve_generator(
    node: CallNode, resolve: Callable[[Sequence[SyntaxNode]], tuple[TypedExpression, ...]]
) -> Generator:
    """Return the generator of a call, whose arguments are typed by `resolve`."""
    call = TypedCall(node.name, resolve(node.arguments), node.span)
    return GENERATORS[node.name](call)


def generate_elements(array: TypedExpression) -> Generator:
    """Return the generator of the elements of an array, in a column `col`, or of the entries of a
    map, in the columns `key` and `value`."""
    if isinstance(array.type, MapType):
        entries = FUNCTIONS["map_entries"].resolve(TypedCall("map_entries", (array,), array.span))
        of_entry = (Field("key", array.type.key), Field("value", array.type.value))
        return Generator(_without_spark_form(entries), of_entry, is_struct=True)
    if not isinstance(array.type, Array):
        message = f"wanted an array or a map to explode, got {_describe(array)}"
        raise ExpressionError(message, array.span)
    columns = (Field(ELEMENT_COLUMN, array.type.element),)
    return Generator(array, columns, array_span=array.span)


def _without_spark_form(typed: TypedExpression) -> TypedExpression:
    """Return a call that is not written in the text."""
    return replace(typed, spark=NO_SPARK_FORM) if isinstance(typed, FunctionCall) else typed


def _describe(value: TypedExpression) -> str:
    return "NULL" if value.type == NULL else f"a value of type {value.type}"


def _resolve_explode(call: TypedCall) -> Generator:
    made = generate_elements(_expect_one(call))
    outer, has_position = call.name.endswith("_outer"), call.name.startswith("pos")
    position = (Field(POSITION_COLUMN, INT, outer),) if has_position else ()
    columns = (*position, *made.columns)
    return replace(made, columns=columns, has_position=has_position, outer=outer)


def _resolve_inline(call: TypedCall) -> Generator:
    array = _expect_one(call)
    element = array.type.element if isinstance(array.type, Array) else None
    if not isinstance(element, Struct):
        message = f"{call.name} wants an array of structs, got {_describe(array)}"
        raise ExpressionError(message, array.span)
    columns = tuple(Field(each.name, each.type) for each in element.fields)
    outer = call.name.endswith("_outer")
    return Generator(array, columns, is_struct=True, outer=outer, array_span=array.span)


def _expect_one(call: TypedCall) -> TypedExpression:
    if len(call.arguments) != 1:
        message = f"{call.name} takes 1 argument, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, f"as in {call.name}(items)")
    return call.arguments[0]


def _resolve_stack(call: TypedCall) -> Generator:
    count = call.arguments[0] if call.arguments else None
    values = call.arguments[1:]
    rows = count.value if isinstance(count, Constant) and count.type == INT else None
    if not isinstance(rows, int) or rows < 1 or not values:
        message = "stack wants a number of rows above 0, and values"
        raise ExpressionError(message, count.span if count else call.span, "as in stack(2, a, b)")
    width = -(-len(values) // rows)
    names = [f"col{at}" for at in range(width)]
    missing = Constant(NULL, True, call.span, None)
    padded = [*values, *[missing] * (rows * width - len(values))]
    _check_columns(padded, names)
    structs = [
        _make_struct(call, names, padded[at : at + width]) for at in range(0, len(padded), width)
    ]
    return _generate_structs(call, structs)


def _check_columns(values: Sequence[TypedExpression], names: Sequence[str]) -> None:
    """Check that the values of each column have one type."""
    for at, name in enumerate(names):
        column = [value for value in values[at :: len(names)] if value.type != NULL]
        for value in column:
            if value.type != column[0].type:
                message = f"{name} of stack is {column[0].type}, and here {value.type}"
                raise ExpressionError(message, value.span, f"write cast(... as {column[0].type})")


def _make_struct(
    call: TypedCall, names: Sequence[str], values: Sequence[TypedExpression]
) -> TypedExpression:
    parts: list[TypedExpression] = []
    for name, value in zip(names, values, strict=True):
        parts += [Constant(STRING, False, call.span, name), value]
    return FUNCTIONS["named_struct"].resolve(TypedCall("named_struct", tuple(parts), call.span))


def _generate_structs(call: TypedCall, structs: Sequence[TypedExpression]) -> Generator:
    """Return the generator of rows of these structs."""
    array = FUNCTIONS["array"].resolve(TypedCall("array", tuple(structs), call.span))
    assert isinstance(array.type, Array) and isinstance(array.type.element, Struct)
    columns = tuple(Field(each.name, each.type) for each in array.type.element.fields)
    return Generator(array, columns, is_struct=True)


def _resolve_json_tuple(call: TypedCall) -> Generator:
    text, *names = call.arguments or (Constant(NULL, True, call.span, None),)
    for each in (text, *names):
        if each.type not in (STRING, NULL):
            raise ExpressionError(f"json_tuple wants texts, got {each.type}", each.span)
    known = [each.value for each in names if isinstance(each, Constant)]
    if not names or len(known) < len(names):
        message = "json_tuple wants a JSON text, and constant names of members"
        raise ExpressionError(message, call.span, "as in json_tuple(text, 'a', 'b')")
    fields = tuple(Field(f"c{at}", STRING) for at in range(len(known)))
    type = Struct(fields)
    row = FunctionCall(
        type, False, call.span, call.name, (text,), _build_members(known, type), NO_SPARK_FORM
    )
    return _generate_structs(call, [row])


def _build_members(names: Sequence[object], type: Type) -> PolarsForm:
    def form(text: pl.Expr) -> pl.Expr:
        from headrace.core.expressions.batch_forms import compute_on_column
        from headrace.core.expressions.json.json_path import select_members

        return compute_on_column(lambda column: select_members(column, names), type)(text)

    return form


GENERATORS: dict[str, Callable[[TypedCall], Generator]] = {
    **{
        name: _resolve_explode
        for name in ("explode", "explode_outer", "posexplode", "posexplode_outer")
    },
    "inline": _resolve_inline,
    "inline_outer": _resolve_inline,
    "stack": _resolve_stack,
    "json_tuple": _resolve_json_tuple,
}
"""The generators by name."""
