"""Numbers as Spark's lexer types them: `1` int, `1L` bigint, `1.5` decimal(2,1), `1e3` double."""

from __future__ import annotations

import math
import re
from decimal import Decimal as PythonDecimal

from headrace.core.expressions.lexer import SqlToken
from headrace.core.expressions.syntax import Literal
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    MAX_DIGITS,
    SMALLINT,
    TINYINT,
    Atom,
    Decimal,
    Type,
)

_SUFFIX = re.compile(r"(BD|[LSYFD])?$", re.IGNORECASE)
_BITS: dict[Atom, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
_INTEGER_SUFFIX: dict[str, Atom] = {"Y": TINYINT, "S": SMALLINT, "L": BIGINT}
_FLOAT_SUFFIX: dict[str, Atom] = {"F": FLOAT, "D": DOUBLE}


def build_number_literal(token: SqlToken, minus: SqlToken | None = None) -> Literal:
    """Build the literal of a number, with the minus sign before it if there is one."""
    span = minus.span.extend_to(token.span) if minus else token.span
    digits = _SUFFIX.sub("", token.text)
    suffix = token.text[len(digits) :].upper()
    text = f"-{digits}" if minus else digits
    if suffix in _FLOAT_SUFFIX:
        return _build_double(text, _FLOAT_SUFFIX[suffix], span)
    if suffix in _INTEGER_SUFFIX:
        return _build_integer(text, (_INTEGER_SUFFIX[suffix],), span)
    if suffix == "BD":
        return _build_decimal(text, span)
    if "e" in digits.lower():
        return _build_double(text, DOUBLE, span)
    if "." in digits:
        return _build_decimal(text, span)
    return _build_integer(text, (INT, BIGINT), span)


def _build_integer(text: str, types: tuple[Atom, ...], span: Span) -> Literal:
    if not text.lstrip("-").isdigit():
        raise ExpressionError(f"{text} is not a whole number", span, "leave out the suffix")
    value = int(text)
    for type in types:
        if -(1 << (_BITS[type] - 1)) <= value < 1 << (_BITS[type] - 1):
            return Literal(span, value, type)
    if types == (INT, BIGINT):
        return _build_decimal(text, span)
    raise ExpressionError(f"{text} does not fit into {types[0]}", span)


def _build_double(text: str, type: Type, span: Span) -> Literal:
    value = float(text)
    limit = 3.4028234663852886e38 if type == FLOAT else math.inf
    if abs(value) > limit or math.isinf(value):
        raise ExpressionError(f"{text} does not fit into {type}", span)
    return Literal(span, value, type)


def _build_decimal(text: str, span: Span) -> Literal:
    value = PythonDecimal(text)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "digits have no NaN"
    scale = max(-exponent, 0)
    precision = max(len(value.as_tuple().digits) + max(exponent, 0), scale, 1)
    if precision > MAX_DIGITS:
        raise ExpressionError(f"{text} has more than {MAX_DIGITS} digits", span)
    return Literal(span, value, Decimal(precision, scale))
