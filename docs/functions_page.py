"""docs/functions.md: what expressions can call, from the table that typing reads."""

from __future__ import annotations

from collections.abc import Iterator

from docs.coverage import coverage_section
from headrace.core.aggregates.catalog import CatalogEntry, format_examples, group_by_family

HEAD = """\
# Functions

What an expression can call. Every example is run as a test. In a signature
`[x: int]` may be left out, `x: T...` may be repeated, and `constant` must be known before anything
runs. `T` and `U` stand for any type, `C` for one of single values with an order, `O` for one with
an order that may also be an array or a struct, `N` for a number, `I` for an integer, `F` for float
or double, `D` for a decimal, `S` for a struct; the same letter is the same type wherever it stands.
The [last section](#coverage-of-spark) says which of Spark's functions are there.
"""

NO_RESULT = {
    "1 / 0": "NULL",
    "cast('seven' as int)": "NULL",
    "cast('2026-02-30' as date)": "NULL",
    "array(1, 2)[5]": "NULL",
    "cast(12345 as decimal(4,2))": "NULL",
    "2147483647 + 1": "-2147483648",
    "cast(3000000000 as int)": "-1294967296",
    "cast(1e10D as int)": "2147483647",
}
"""Expressions that fail a query of Spark's with ANSI on, and what they give with ANSI off."""

ANSI = """
## What Spark calls ANSI off

Results are exactly those of Spark 4.3 with `spark.sql.ansi.enabled=false`, the default before
Spark 4. Spark 4 by default fails a query at the first value that it cannot compute. A stream that
failed at a row would fail at it again after every restart, so here such a value is NULL, integers
wrap around, and a double or float that is cast to an integer becomes the nearest one that fits:

| expression | value; an error in Spark with ANSI on |
| --- | --- |
{rows}
Where Spark fails even with ANSI off, as for times beyond its range, the value is NULL as well
([the cases](decisions/0008-what-fails-a-spark-job-is-null-here.md)). None of these values is a bad
record: `on_error` of a source is for records that do not fit its `schema`. To find such values,
compare with `is null`, as in `route: {{bad: amount is null and text is not null}}`. `try_add`,
`try_subtract`, `try_multiply` and `try_cast` give NULL where integers would wrap around. To fail
the job instead, use a function of your own with `map`.

Types are converted implicitly as Spark converts them:

- A comparison converts a text to the other type: in `'10' < 9` to an int, next to a date to a date,
  next to a decimal with digits after the point to a double. A text that cannot be converted is
  NULL, and so is the comparison.
- Arithmetic converts a text to a double: `'1' + 1` is `2.0`.
- `in`, `case`, `if`, `coalesce` and `array` convert all values to text where one of them is a text:
  a date is in a list of texts only if one of them is exactly its own, as in `'2026-01-31'`.
- A function converts its arguments to the types of its parameters: `upper(1)`, `repeat('x', '3')`,
  `year('2026-01-31')`. A parameter that is `exact` takes its own type only.

What is probably a mistake is a warning of `headrace validate`: a comparison with a literal `null`,
a literal that cannot be converted, a text in a list of dates that is not written as dates are.
`explain` shows the types of all columns.
"""


def functions_page() -> str:
    """The whole page."""
    rows = "".join(f"| `{text}` | `{value}` |\n" for text, value in NO_RESULT.items())
    parts = [HEAD, ANSI.format(rows=rows)]
    for family, entries in group_by_family().items():
        parts.append(f"\n## {family.capitalize()}\n")
        parts += [part for entry in entries for part in _entry(entry)]
    return "".join([*parts, coverage_section()])


def _entry(entry: CatalogEntry) -> Iterator[str]:
    names = ", ".join(f"`{name}`" for name in entry.aliases)
    also = f" Also called {names}." if names else ""
    yield f"\n### `{entry.name}`\n\n{entry.doc}{also}\n\n```\n"
    yield "".join(f"{signature}\n" for signature in entry.signatures)
    yield "".join(f"{line}\n" for line in ("", *format_examples(entry), "```"))
