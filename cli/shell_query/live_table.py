"""The table of a query that is still running, drawn on the terminal as often as it is cheap."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from headrace.core.errors.rendering import format_count

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from headrace.cli.shell_query.pipeline import ShellQuery
    from headrace.core.job.job import Job

FIRST_S = 1.0
"""The time after which the table is first drawn: a query that is faster prints its rows only."""
INTERVAL_S = 0.25
IDLE_FACTOR = 10
"""Between two drawings passes this number of times what one takes."""
MIN_WIDTH = 8
"""The width to which a column shrinks before columns on the right are cut off."""
FRAME_LINES = 3
"""The lines of the terminal that are no rows: the header, the caption, the line of the cursor."""


def can_draw() -> bool:
    """Whether standard output is a terminal on which lines can be drawn again."""
    import os

    return bool(sys.stdout and sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


async def watch_rows(planned: ShellQuery, job: Job) -> None:
    """Draw the table of the rows so far until cancelled; then erase it."""
    began = time.monotonic()
    await asyncio.sleep(FIRST_S)
    from headrace.cli.run_live import LiveLines

    lines = LiveLines(sys.stdout)
    try:
        while True:
            start = time.monotonic()
            lines.show(_build_table(planned, start - began))
            await asyncio.sleep(max(INTERVAL_S, IDLE_FACTOR * (time.monotonic() - start)))
    finally:
        lines.show(None)


def _build_table(planned: ShellQuery, seconds: float) -> Table:
    from headrace.cli.run_live import measure_terminal

    rows = planned.order.apply(planned.rows.peek_rows(planned.schema), planned.sort)
    shown = rows.head(max(1, measure_terminal(sys.stdout).lines - FRAME_LINES))
    count = format_count(rows.height, "row")
    part = f"{shown.height:,} of {count}" if shown.height < rows.height else count
    return build_live_table(planned, shown, f"{part} after {seconds:.0f} s; Ctrl-C ends the query")


def build_live_table(planned: ShellQuery, rows: pl.DataFrame, caption: str) -> Table:
    """Build the table of rows, with a caption below."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from headrace.cli.state.values import format_cells
    from headrace.core.types.data_types import is_numeric

    types = {field.name: field.type for field in planned.schema}
    table = Table(box=None, pad_edge=False, header_style="dim")
    lines = format_cells(rows, types, shorten=True)
    for at, name in enumerate(rows.columns):
        justify = "right" if is_numeric(types[name]) else "left"
        width = max(len(name), *(len(cells[at]) for cells in lines), 0)
        table.add_column(
            escape(name),
            justify=justify,  # type: ignore[arg-type]
            no_wrap=True,
            min_width=min(width, MIN_WIDTH),
        )
    for cells in lines:
        table.add_row(*map(escape, cells))
    # A caption of the table would be wrapped at its width.
    whole = Table.grid()
    whole.add_row(table)
    whole.add_row(Text(caption, style="dim", no_wrap=True, overflow="ellipsis"))
    return whole
