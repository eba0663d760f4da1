"""docs/functions.md: what expressions can call, from the table that typing reads."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.expressions.function import Function
from headrace.core.expressions.functions import FAMILIES

HEAD = """\
# Functions

What an expression can call. Every example is run as a test, here and on Spark. In a signature
`[x: int]` may be left out, `x: T...` may be repeated, and `constant` must be known before anything
runs. `T` and `U` stand for any type, `C` for one with an order, `N` for a number, `I` for an
integer, `F` for float or double, `D` for a decimal, `S` for a struct; the same letter is the same
type wherever it stands.
"""


def functions_page() -> str:
    """The whole page."""
    families: dict[str, list[Function]] = {}
    for row in (row for family in FAMILIES for row in family):
        families.setdefault(row.family, []).append(row)
    parts = [HEAD]
    for family, rows in families.items():
        parts.append(f"\n## {family.capitalize()}\n")
        parts += [part for row in rows for part in _function(row)]
    return "".join(parts)


def _function(row: Function) -> Iterator[str]:
    also = f" Also called {', '.join(f'`{name}`' for name in row.aliases)}." if row.aliases else ""
    yield f"\n### `{row.name}`\n\n{row.doc}{also}\n\n```\n"
    yield "".join(f"{signature}\n" for signature in row.signatures)
    width = max(len(text) for text, _ in row.examples)
    yield "\n" + "".join(f"{text:<{width}}  ->  {value}\n" for text, value in row.examples)
    yield "```\n"
