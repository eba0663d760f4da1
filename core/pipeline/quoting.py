"""How to write a value in quotes: the hint for most of what YAML takes for something else."""

from __future__ import annotations

MAX_SHOWN = 60


def quoted(value: str) -> str:
    """The value in the quotes that it needs least escapes in.

    >>> quoted("a = 'b'"), quoted('"x" || y'), quoted("x rlike 'a.b'")
    ('"a = \\'b\\'"', '\\'"x" || y\\'', '"x rlike \\'a.b\\'"')
    """
    if '"' not in value and "\\" not in value:
        return f'"{value}"'
    return "'" + value.replace("'", "''") + "'"


def quote_hint(value: str, key: str = "") -> str:
    """How to write the value in quotes, if that is not too long to show."""
    value = value.strip()
    if len(value) > MAX_SHOWN or "\n" in value:
        return "put the value in quotes"
    return f"put it in quotes: {key + ': ' if key else ''}{quoted(value)}"
