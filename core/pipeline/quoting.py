"""Quoted values for hints: quotes fix most values that YAML reads as something else."""

from __future__ import annotations

MAX_SHOWN = 60


def quoted(value: str) -> str:
    """Return the value in the kind of quotes that needs fewer escapes.

    >>> quoted("a = 'b'"), quoted('"x" || y'), quoted("x rlike 'a.b'")
    ('"a = \\'b\\'"', '\\'"x" || y\\'', '"x rlike \\'a.b\\'"')
    """
    if '"' not in value and "\\" not in value:
        return f'"{value}"'
    return "'" + value.replace("'", "''") + "'"


def quote_hint(value: str, key: str = "") -> str:
    """Return the hint to quote a value; a long value is not shown."""
    value = value.strip()
    if len(value) > MAX_SHOWN or "\n" in value:
        return "put the value in quotes"
    return f"put it in quotes: {key + ': ' if key else ''}{quoted(value)}"
