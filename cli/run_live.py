"""Live report of a run on a terminal: a table of its parts, below all other output.

rich formats the table; this module places it. Rows printed to the same terminal may be many, and
must be neither wrapped nor styled: so a write erases the table, prints the text unchanged, and
draws the same table below it. rich's own live display would render the table for each write, and
format the rows as markup.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from headrace.cli.batch.told import BatchLook, batch_table
from headrace.cli.run_progress import Look, time_said
from headrace.cli.run_text import TextReport
from headrace.core.rendering import size

if TYPE_CHECKING:
    from rich.table import Table

COLOURS = {"ok": "green", "low": "yellow", "high": "bold red"}
TO_START = "\r"
UP = "\x1b[{}A"
ERASE_DOWN = "\x1b[J"


class Foot:
    """The last lines of a terminal; all other output is printed above them, from any thread."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._lock = threading.RLock()
        self._text = ""
        self._drawn = 0
        self._open_line = False

    def show(self, text: str) -> None:
        """Replace the lines; if another thread is printing, it draws them when done."""
        self._text = text
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
        if self._text and not self._open_line:
            self._terminal.write(self._text)
            self._terminal.flush()
            self._drawn = self._text.count("\n")

    def _erase(self) -> None:
        if self._drawn:
            self._terminal.write(TO_START + UP.format(self._drawn) + ERASE_DOWN)
            self._terminal.flush()
            self._drawn = 0


class Above:
    """A text stream whose writes appear above the live lines; otherwise the stream itself."""

    def __init__(self, out: TextIO, foot: Foot) -> None:
        self._out = out
        self._foot = foot

    def write(self, text: str) -> int:
        """Write above the live lines."""
        return self._foot.print(self._out, text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._out, name)


class LiveReport(TextReport):
    """A report with a table, drawn every second, and lines above it."""

    every_s = 1.0

    def __init__(self, pipeline: str, quiet: bool) -> None:
        super().__init__(pipeline, quiet)
        self._foot = Foot(sys.stderr)

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Print both streams above the table within the `with`, if they go to a terminal."""
        before = sys.stdout, sys.stderr
        if sys.stdout and sys.stdout.isatty():
            sys.stdout = Above(sys.stdout, self._foot)
        sys.stderr = Above(sys.stderr, self._foot)
        try:
            yield
        finally:
            self._foot.show("")
            sys.stdout, sys.stderr = before

    def progress(self, look: Look) -> None:
        """Draw the table."""
        self._foot.show(rendered(table(look, self._last)))

    def stages(self, look: BatchLook) -> None:
        """Draw the table of stages."""
        self._foot.show(rendered(batch_table(look)))


def rendered(shown: Table) -> str:
    """Render the table, cut to the height of the terminal."""
    from rich.console import Console

    console = Console(file=sys.stderr, force_terminal=True, highlight=False)
    with console.capture() as capture:
        console.print(shown)
    lines = capture.get().splitlines(keepends=True)
    return "".join(lines[: max(1, console.height - 1)])


def table(look: Look, checkpoint: str = "") -> Table:
    """Build the table of parts with totals; below it the state's size and the newest checkpoint."""
    from rich.table import Table

    state = f"state {size(look.state_bytes)}" if look.state_bytes else ""
    shown = Table(
        box=None,
        pad_edge=False,
        show_footer=True,
        header_style="dim",
        footer_style="dim",
        caption="   ".join(filter(None, (state, checkpoint))) or None,
        caption_justify="left",
    )
    shown.add_column("", f"{look.seconds:.0f} s", no_wrap=True)
    heads = ["rows in", "/s", "rows out", "/s", "bad"]
    totals = [look.rows_in, look.in_per_s, look.rows_out, look.out_per_s, look.bad]
    if look.late is not None:
        heads.append("late")
        totals.append(look.late)
    for head, total in zip(heads, totals, strict=True):
        shown.add_column(head, f"{total:,.0f}", justify="right", no_wrap=True)
    if look.timed:
        shown.add_column("watermark", no_wrap=True)
    shown.add_column("backpressure", no_wrap=True)
    for part in look.parts:
        counts = part.counts
        cells: list[float | None] = [counts.rows_in, part.in_per_s]
        cells += [counts.rows_out, part.out_per_s, counts.bad]
        if look.late is not None:
            cells.append(counts.late)
        numbers = ["" if cell is None else f"{cell:,.0f}" for cell in cells]
        times = [time_said(part)] if look.timed else []
        colour = COLOURS[part.backpressure]
        waits = f"[{colour}]{part.backpressure}[/] {part.waits:.0%}"
        shown.add_row(part.name, *numbers, *times, waits)
    return shown
