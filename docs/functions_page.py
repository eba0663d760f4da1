"""docs/functions.md: what expressions can call, from the table that typing reads."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.aggregates.catalog import CatalogEntry, format_examples, group_by_family

HEAD = """\
# Functions

What an expression can call. Every example is run as a test. In a signature
`[x: int]` may be left out, `x: T...` may be repeated, and `constant` must be known before anything
runs. `T` and `U` stand for any type, `C` for one with an order, `N` for a number, `I` for an
integer, `F` for float or double, `D` for a decimal, `S` for a struct; the same letter is the same
type wherever it stands.
"""


def functions_page() -> str:
    """The whole page."""
    parts = [HEAD]
    for family, entries in group_by_family().items():
        parts.append(f"\n## {family.capitalize()}\n")
        parts += [part for entry in entries for part in _entry(entry)]
    return "".join(parts)


def _entry(entry: CatalogEntry) -> Iterator[str]:
    names = ", ".join(f"`{name}`" for name in entry.aliases)
    also = f" Also called {names}." if names else ""
    yield f"\n### `{entry.name}`\n\n{entry.doc}{also}\n\n```\n"
    yield "".join(f"{signature}\n" for signature in entry.signatures)
    yield "".join(f"{line}\n" for line in ("", *format_examples(entry), "```"))
