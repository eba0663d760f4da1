"""A table as output of a command: for people, as JSON, CSV or Parquet."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from headrace.core.types.lazy_pattern import compile_pattern

if TYPE_CHECKING:
    from headrace.cli.state.sql_tables import Table

CHUNK_ROWS = 10_000
"""The number of rows that are converted at once where each is a line."""


def write_table(table: Table, form: str, to: str | None) -> None:
    """Write a table to a file, or to standard output.

    `form` is `table`, `csv`, `parquet`, `json` (an array), or `jsonl`: an object a
    line.
    """
    if form == "parquet":
        table.rows.write_parquet(sys.stdout.buffer if to is None else to)
    elif to is None:
        for text in _format_table(table, form, shorten=True):
            click.echo(text)
    else:
        with open(to, "w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in _format_table(table, form, shorten=False))


def _format_table(table: Table, form: str, *, shorten: bool) -> Iterator[str]:
    """Yield a table as text, in pieces of whole lines without their last line end."""
    import json

    from headrace.cli.state.values import format_table, to_plain_rows

    types = {field.name: field.type for field in table.schema}
    if form == "table":
        yield format_table(table.rows, types, shorten=shorten and sys.stdout.isatty())
        return
    if form == "json":
        yield json.dumps(to_plain_rows(table.rows, types), indent=2, ensure_ascii=False)
        return
    if form == "csv":
        yield _format_csv_line(table.schema.names)
    for start in range(0, table.rows.height, CHUNK_ROWS):
        rows = to_plain_rows(table.rows[start : start + CHUNK_ROWS], types)
        if form == "csv":
            yield "\n".join(_format_csv_line(row.values()) for row in rows)
        else:
            yield "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def _format_csv_line(values: Iterable[object]) -> str:
    """Format a row as `files` does: null is an empty field, and the empty text is quoted.

    >>> _format_csv_line([1, None, "", "a,b", [True]])
    '1,,"","a,b",[true]'
    """
    return ",".join(map(_format_csv_field, values))


def _format_csv_field(value: object) -> str:
    import json

    match value:
        case None:
            return ""
        case str():
            text = value
        case _:
            text = json.dumps(value, ensure_ascii=False)
    if text and not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


_QUOTED = compile_pattern(r'[",\r\n]')
