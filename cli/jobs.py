"""`headrace jobs`: lists running jobs and jobs that can be resumed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.pipelines import add_home_option, check_home

if TYPE_CHECKING:
    from headrace.cli.control.listing import JobEntry

STATUS_COLOURS = {
    "running": "green",
    "stopped": "dim",
    "restarting": "bold red",
    "damaged": "bold red",
}
NUMBER_COLUMNS = range(2, 6)
"""The columns that are right-aligned."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@add_home_option
def jobs(as_json: bool, home: str) -> None:
    """List running jobs, and jobs that can be resumed.

    They are the jobs of one home: --home, or .headrace in this folder. Rates are over the last five
    to ten seconds. A job that was stopped or killed resumes from its newest checkpoint when its
    pipeline is run again. Runs without checkpoints (--limit, standard input) are not listed.
    """
    from headrace.cli.control.listing import list_jobs

    check_home(home)
    found = list_jobs(home)
    if as_json:
        import orjson

        documents = [one.build_document() for one in found]
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        click.echo(orjson.dumps(documents, option=options), nl=False)
    elif not found:
        click.echo(f"there are no jobs in {home}", err=True)
    else:
        _print_jobs(found)


def _print_jobs(found: Sequence[JobEntry]) -> None:
    from datetime import UTC, datetime

    from headrace.cli.control.listing import format_rows

    heads, *cells = format_rows(found, datetime.now(UTC))
    if sys.stdout.isatty():
        _print_table(heads, cells)
    else:
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        for row in (heads, *cells):
            click.echo(_format_line(row, widths))


def _format_line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Align the cells of a row.

    >>> _format_line(("a", "b", "1", "", "", "", ""), (2, 2, 3, 1, 1, 1, 1))
    'a   b     1'
    """
    pairs = enumerate(zip(row, widths, strict=True))
    set_ = [cell.rjust(w) if at in NUMBER_COLUMNS else cell.ljust(w) for at, (cell, w) in pairs]
    return "  ".join(set_).rstrip()


def _print_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for at, head in enumerate(heads):
        table.add_column(head, justify="right" if at in NUMBER_COLUMNS else "left")
    for name, status, *rest in cells:
        colour = STATUS_COLOURS.get(status)
        shown = f"[{colour}]{status}[/]" if colour else status
        table.add_row(escape(name), shown, *map(escape, rest))
    Console(highlight=False).print(table)
