"""Errors of expressions that fail for a row.

Tests: tests/core/expressions/test_checked_expressions.py.
"""


class ExpressionFailure(Exception):
    """An expression has no value for a row, and must not be null: as with `raise_error`."""

    hint = (
        "on_error: skip in the step leaves such rows out, on_error: {to: NAME} collects them;"
        " in outer joins, broadcasts, sources and sinks a failure always ends the job"
    )

    unskippable_hint = (
        "where leaves such rows out; on_error does not go with rows that may be removed"
    )
    """The hint for rows that are added and removed."""

    @property
    def message(self) -> str:
        """The message, without what Polars appends to it."""
        return str(self).partition("\n\n")[0]


class ValueTooLarge(ExpressionFailure):
    """A function would make a value larger than `settings.max_value`."""

    hint = (
        "raise max_value in settings, or compute the value in with, select or where of a step:"
        " there on_error: skip leaves such rows out, on_error: {to: NAME} collects them"
    )
    unskippable_hint = "raise max_value in settings"
