"""Live report of a run on a terminal: a table of its parts, below all other output.

rich formats the table; this module places it. Rows printed to the same terminal may be many, and
must be neither wrapped nor styled: so a write erases the table, prints the text unchanged, and
draws the same table below it. rich's own live display would render the table for each write, and
format the rows as markup.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from os import terminal_size
from typing import TYPE_CHECKING, TextIO

from headrace.cli.batch.batch_report import BatchProgress, build_batch_table
from headrace.cli.formatting import format_metrics
from headrace.cli.run_progress import JobProgress, format_watermark
from headrace.cli.run_text import TextReport
from headrace.core.errors.rendering import format_size

if TYPE_CHECKING:
    from rich.table import Table

BACKPRESSURE_COLOURS = {"ok": "green", "low": "yellow", "high": "bold red"}
TO_START = "\r"
CURSOR_UP = "\x1b[{}A"
ERASE_DOWN = "\x1b[J"


class LiveLines:
    """The last lines of a terminal; all other output is printed above them, from any thread.

    Whenever they are drawn they fit the terminal as it is then: a wrapped line could not be erased.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._lock = threading.RLock()
        self._table: Table | None = None
        self._rendered: tuple[Table, terminal_size, str] | None = None
        """The table that was rendered last, for which size, and its text."""
        self._drawn_lines = 0
        self._open_line = False

    def show(self, table: Table | None) -> None:
        """Replace the lines; if another thread is printing, it draws them when done."""
        self._table = table
        if self._lock.acquire(blocking=False):
            try:
                self._erase()
                self._draw()
            finally:
                self._lock.release()

    def print(self, out: TextIO, text: str) -> int:
        """Write text above the lines."""
        with self._lock:
            self._erase()
            written = out.write(text)
            out.flush()
            if text:
                self._open_line = not text.endswith("\n")
            self._draw()
        return written

    def _draw(self) -> None:
        if self._table is not None and not self._open_line:
            text = self._render(self._table)
            self._terminal.write(text)
            self._terminal.flush()
            self._drawn_lines = text.count("\n")

    def _render(self, table: Table) -> str:
        size = measure_terminal(self._terminal)
        if self._rendered is None or self._rendered[:2] != (table, size):
            self._rendered = table, size, render_table(table, size)
        return self._rendered[2]

    def _erase(self) -> None:
        if self._drawn_lines:
            self._terminal.write(TO_START + CURSOR_UP.format(self._drawn_lines) + ERASE_DOWN)
            self._terminal.flush()
            self._drawn_lines = 0


class PrintAbove:
    """A text stream whose writes appear above the live lines; otherwise the stream itself."""

    def __init__(self, out: TextIO, progress: LiveLines) -> None:
        self._out = out
        self._progress = progress

    def write(self, text: str) -> int:
        """Write above the live lines."""
        return self._progress.print(self._out, text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._out, name)


class LiveReport(TextReport):
    """A report with a table, drawn every second, and lines above it."""

    interval_s = 1.0

    def __init__(self, pipeline: str, quiet: bool) -> None:
        super().__init__(pipeline, quiet)
        self._live_lines = LiveLines(sys.stderr)

    @contextmanager
    def open_display(self) -> Iterator[None]:
        """Print both streams above the table within the `with`, if they go to a terminal."""
        before = sys.stdout, sys.stderr
        if sys.stdout and sys.stdout.isatty():
            sys.stdout = PrintAbove(sys.stdout, self._live_lines)
        sys.stderr = PrintAbove(sys.stderr, self._live_lines)
        try:
            yield
        finally:
            self._live_lines.show(None)
            sys.stdout, sys.stderr = before

    def report_progress(self, look: JobProgress) -> None:
        """Draw the table."""
        self._live_lines.show(build_progress_table(look, self._checkpoint_text))

    def report_stages(self, look: BatchProgress) -> None:
        """Draw the table of stages."""
        self._live_lines.show(build_batch_table(look))


def measure_terminal(terminal: TextIO) -> terminal_size:
    """Return the present size of the terminal; 80 by 24 if it is not known."""
    try:
        size = os.get_terminal_size(terminal.fileno())
    except (OSError, ValueError):
        size = terminal_size((0, 0))
    return terminal_size((size.columns or 80, size.lines or 24))


def render_table(shown: Table, size: terminal_size) -> str:
    """Render the table, cut to the size of the terminal."""
    from rich.console import Console

    # A file of its own: the standard streams print above the table, and would render it again.
    text = io.StringIO()
    console = Console(
        file=text,
        force_terminal=True,
        highlight=False,
        width=size.columns,
        height=size.lines,
    )
    console.print(shown, overflow="crop", crop=True)
    lines = text.getvalue().splitlines(keepends=True)
    return "".join(lines[: max(1, size.lines - 1)])


def build_progress_table(look: JobProgress, checkpoint: str = "") -> Table:
    """Build the table of parts with totals; below it the state's size, the newest checkpoint, and
    the metrics of parts.
    """
    from rich.markup import escape
    from rich.table import Table

    state = f"state {format_size(look.state_bytes)}" if look.state_bytes else ""
    lines = ["   ".join(filter(None, (state, checkpoint)))]
    metrics = ((part.name, part.counts.metrics.list_all()) for part in look.parts)
    lines += [escape(format_metrics(name, values)) for name, values in metrics if values]
    shown = Table(
        box=None,
        pad_edge=False,
        show_footer=True,
        header_style="dim",
        footer_style="dim",
        caption="\n".join(filter(None, lines)) or None,
        caption_justify="left",
    )
    shown.add_column("", f"{look.seconds:.0f} s", no_wrap=True)
    heads = ["rows in", "/s", "rows out", "/s", "bad"]
    totals = [look.rows_in, look.in_per_s, look.rows_out, look.out_per_s, look.bad_rows]
    if look.late_rows is not None:
        heads.append("late")
        totals.append(look.late_rows)
    for head, total in zip(heads, totals, strict=True):
        shown.add_column(head, f"{total:,.0f}", justify="right", no_wrap=True)
    if look.has_watermark:
        shown.add_column("watermark", no_wrap=True)
    shown.add_column("backpressure", no_wrap=True)
    for part in look.parts:
        counts = part.counts
        cells: list[float | None] = [counts.rows_in, part.in_per_s]
        cells += [counts.rows_out, part.out_per_s, counts.bad_rows]
        if look.late_rows is not None:
            cells.append(counts.late_rows)
        numbers = ["" if cell is None else f"{cell:,.0f}" for cell in cells]
        times = [format_watermark(part)] if look.has_watermark else []
        colour = BACKPRESSURE_COLOURS[part.backpressure]
        waits = f"[{colour}]{part.backpressure}[/] {part.wait_share:.0%}"
        shown.add_row(part.name, *numbers, *times, waits)
    return shown
