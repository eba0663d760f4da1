"""Assertions on a refused expression: its message, its span, its hint."""

from __future__ import annotations

import pytest

from headrace.core.expressions import ExpressionError, ExpressionErrors, type_expression
from headrace.core.types.data_types import Schema


def assert_refused(text: str, schema: Schema, message: str, at: str, hint: str) -> ExpressionError:
    """Assert that there is one error, with this message and span, and return it."""
    with pytest.raises(ExpressionErrors) as caught:
        type_expression(text, schema)
    (error,) = caught.value.errors
    assert message in error.message
    assert text[error.span.start : error.span.end] == at
    assert hint in error.hint
    return error
