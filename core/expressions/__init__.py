"""Spark SQL expressions: parsed, typed, and compiled to Polars with exactly Spark's semantics.

typed = type_expression("price * 2", schema)     # ExpressionErrors: all errors in the text
frame.with_columns(to_expr(typed).alias("twice"))

Tests: tests/core/expressions: every function against Spark's answers in
tests/core/expressions/test_spark_answers.py and tests/core/expressions/test_semantics.py.
"""

from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import (
    DEFAULT_MAX_VALUE,
    ExpressionError,
    ExpressionErrors,
    Span,
    TypedExpression,
    find_columns,
)
from headrace.core.types.data_types import Schema

__all__ = [
    "ExpressionError",
    "ExpressionErrors",
    "Span",
    "TypedExpression",
    "find_columns",
    "to_expr",
    "type_expression",
]


def type_expression(
    text: str,
    schema: Schema,
    max_value: int = DEFAULT_MAX_VALUE,
    *,
    has_row_place: bool = False,
) -> TypedExpression:
    """Return the typed tree of an expression over these columns, or raise ExpressionErrors.

    `max_value` is the largest value, in bytes, that a growing call may make. Random values need
    rows that have a place in the row order (`has_row_place`).
    """
    # Imported here because the function table imports this package's modules.
    from headrace.core.expressions.parsing.parser import parse_expression
    from headrace.core.expressions.resolver import ExpressionResolver

    try:
        tree = parse_expression(text)
    except ExpressionError as error:
        raise ExpressionErrors([error]) from None
    resolver = ExpressionResolver(schema, max_value=max_value, has_row_place=has_row_place)
    return resolver.resolve(tree)
