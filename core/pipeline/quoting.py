"""Quoted values for hints: quotes fix most values that YAML reads as something else."""

from __future__ import annotations

MAX_SHOWN = 60


def quote_yaml(value: str) -> str:
    """Return the value in the kind of quotes that needs fewer escapes.

    >>> quote_yaml("a = 'b'"), quote_yaml('"x" || y'), quote_yaml("x rlike 'a.b'")
    ('"a = \\'b\\'"', '\\'"x" || y\\'', '"x rlike \\'a.b\\'"')
    """
    if '"' not in value and "\\" not in value:
        return f'"{value}"'
    return "'" + value.replace("'", "''") + "'"


def suggest_quotes(value: str, key: str = "") -> str:
    """Return the hint to quote a value; a long value is not shown."""
    value = value.strip()
    if len(value) > MAX_SHOWN or "\n" in value:
        return "put the value in quotes"
    return f"put it in quotes: {key + ': ' if key else ''}{quote_yaml(value)}"
