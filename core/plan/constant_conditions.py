"""Conditions that compare only constants, and are therefore the same for every row.

Spark SQL reads text in double quotes as a string, where standard SQL reads the name of a column. So
`"user" = 'a1'` compares two strings, and is never true.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    SyntaxNode,
    TypedText,
    child_nodes,
)
from headrace.core.expressions.signature import evaluate_constant
from headrace.core.expressions.typed import (
    Constant,
    FunctionCall,
    Span,
    TypedExpression,
    find_inputs,
)
from headrace.core.types.data_types import STRING, Schema, quote_name
from headrace.core.types.lazy_dataclass import dataclass

CONDITIONS = frozenset(
    ("=", "<>", "<=>", "<", "<=", ">", ">=", "in", "between", "like", "ilike", "rlike")
) | {"isnull", "isnotnull", "contains", "startswith", "endswith"}
"""Operators and functions that tell rows apart."""

CONSTANT_MESSAGE = "only constants are compared here, so this is the same for every row"
QUOTES_HINT = "text in double quotes is a string: a column is its plain name, or in back quotes"

Truth: TypeAlias = bool | None
"""The result of a condition for a row; None: null."""


@dataclass(frozen=True, slots=True)
class ConstantCondition:
    """A condition on constants: its characters, or those of a column in double quotes; a hint."""

    span: Span
    hint: str


def find_constant_conditions(
    text: str, node: SyntaxNode, schema: Schema
) -> Iterator[ConstantCondition]:
    """Yield the conditions in an expression whose operands are all literals."""
    if (
        isinstance(node, CallNode)
        and node.name in CONDITIONS
        and all(isinstance(each, Literal | TypedText) for each in node.arguments)
    ):
        yield _explain_condition(text, node, schema)
        return
    for child in child_nodes(node):
        yield from find_constant_conditions(text, child, schema)


def _explain_condition(text: str, call: CallNode, schema: Schema) -> ConstantCondition:
    quoted = [
        each
        for each in call.arguments
        if isinstance(each, Literal) and each.type == STRING and text[each.span.start] == '"'
    ]
    for each in quoted:
        if str(each.value) in schema:
            return ConstantCondition(each.span, f"write {quote_name(str(each.value))}")
    return ConstantCondition(call.span, QUOTES_HINT if quoted else "")


def find_results(condition: TypedExpression) -> frozenset[Truth]:
    """Return the results that are possible for a condition, as far as its constants decide.

    The condition must be one that cannot fail.
    """
    match condition:
        case _ if not find_inputs(condition):
            value = evaluate_constant(condition).value
            return frozenset((None if value is None else bool(value),))
        case FunctionCall(function="not", arguments=(one,)):
            return frozenset(None if each is None else not each for each in find_results(one))
        case FunctionCall(function="and" | "or" as name, arguments=arguments):
            decisive = name == "or"
            pairs = product(*map(find_results, arguments))
            return frozenset(_connect(decisive, pair) for pair in pairs)
        case FunctionCall(function="=" | "<>" | "<" | "<=" | ">" | ">=", arguments=arguments):
            if any(isinstance(each, Constant) and each.value is None for each in arguments):
                return frozenset((None,))
    return frozenset((True, False, None))


def _connect(decisive: bool, each: tuple[Truth, ...]) -> Truth:
    """Return the result of `and` or `or`, of which one result decides."""
    if decisive in each:
        return decisive
    return None if None in each else not decisive
