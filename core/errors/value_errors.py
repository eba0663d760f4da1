"""The error of a value that is larger than the pipeline allows.

Tests: tests/core/expressions/test_value_limits.py.
"""


class ValueTooLarge(Exception):
    """A function would make a value larger than `settings.max_value`."""

    hint = (
        "raise max_value in settings, or compute the value in with, select or where of a step:"
        " there on_error: skip leaves such rows out, on_error: {to: NAME} collects them"
    )

    @property
    def message(self) -> str:
        """The message, without what Polars appends to it."""
        return str(self).partition("\n\n")[0]
