"""What the tests of every family say of a refusal: its words, its characters, its hint."""

from __future__ import annotations

import pytest

from headrace.core.expressions import ExpressionError, ExpressionErrors, type_expression
from headrace.core.types import Schema


def assert_refused(text: str, schema: Schema, message: str, at: str, hint: str) -> ExpressionError:
    """One error, with these words, under just those characters of the text; the error itself."""
    with pytest.raises(ExpressionErrors) as caught:
        type_expression(text, schema)
    (error,) = caught.value.errors
    assert message in error.message
    assert text[error.span.start : error.span.end] == at
    assert hint in error.hint
    return error
