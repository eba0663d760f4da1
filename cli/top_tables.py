"""Tables of `headrace top`: the figures of jobs and parts as cells, without a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.cli.control.job_list import JobEntry, format_rows
from headrace.cli.findings_text import format_findings
from headrace.cli.formatting import align_columns, format_duration, format_latency, format_metrics
from headrace.core.errors.rendering import format_count, format_size
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from rich.table import Table

HEADS = (
    *("", "subtasks", "rows in", "/s", "rows out", "/s", "busy", "idle", "backpressured"),
    *("watermark", "lag", "late", "bad", "state"),
)
LEFT_COLUMNS = (0, 9)
DROPPED_FIRST = ("watermark", "subtasks", "idle", "state", "rows out", "late")
"""The columns that a narrow terminal does not show."""
GAP = 2
"""The space between two columns."""
LEFT_JOB_COLUMNS = (0, 1, 6, 7)


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table with lines above and below it."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    left_columns: Sequence[int] = LEFT_COLUMNS

    def format_lines(self) -> list[str]:
        """Return the table as lines of text."""
        table = align_columns([self.heads, *self.rows], self.left_columns)
        return [self.title, *table, *self.notes]

    def select_columns(self, width: int) -> list[int]:
        """Return the columns to show in a terminal: not empty ones, and as many as have room."""
        cells = [*zip(self.heads, *self.rows, strict=True)]
        widths = {at: max(map(len, column)) for at, column in enumerate(cells) if any(column[1:])}
        for head in DROPPED_FIRST:
            if sum(widths.values()) + GAP * (len(widths) - 1) <= width:
                break
            if head in self.heads:
                widths.pop(self.heads.index(head), None)
        return [*widths]

    def build_rich_table(self, width: int) -> Table:
        """Return the table for a terminal of this width."""
        from rich.markup import escape
        from rich.table import Table

        shown = Table(
            box=None,
            pad_edge=False,
            header_style="dim",
            title=escape(self.title),
            title_justify="left",
            title_style="bold",
            caption=escape("\n".join(self.notes)) or None,
            caption_justify="left",
        )
        columns = self.select_columns(width)
        for at in columns:
            is_left = at in self.left_columns
            shown.add_column(self.heads[at], justify="left" if is_left else "right", no_wrap=True)
        for row in self.rows:
            shown.add_row(*(escape(row[at]) for at in columns))
        return shown


def build_job_table(entries: Sequence[JobEntry]) -> FigureTable:
    """Return the table of all jobs."""
    heads, *rows = format_rows(entries, datetime.now(UTC))
    running = sum(one.job_document is not None for one in entries)
    title = f"{format_count(len(entries), 'job')}, {running} running"
    return FigureTable(title, heads, rows, left_columns=LEFT_JOB_COLUMNS)


def build_part_table(
    job: Mapping[str, Any], statistics: Mapping[str, Any], diagnosis: Mapping[str, Any]
) -> FigureTable:
    """Return the table of a job's parts, from the answers of its API."""
    title = f"{job['name']} is {job['status']}, up {format_duration(job['uptime_s'])}"
    if job["checkpoint"] is not None:
        title += f", checkpoint {job['checkpoint']['number']}"
    rows = [
        _format_part(name, job["parts"].get(name, {}), part, _list_subtasks(name, statistics))
        for name, part in statistics["parts"].items()
    ]
    notes = [
        format_latency(source, name, latency)
        for name, part in statistics["parts"].items()
        for source, latency in part["latency"].items()
    ]
    notes += [
        format_metrics(name, part["metrics"])
        for name, part in statistics["parts"].items()
        if part["metrics"]
    ]
    notes += format_findings(diagnosis["findings"], diagnosis["time"])
    return FigureTable(title, HEADS, rows, notes)


def _list_subtasks(part: str, statistics: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in statistics["subtasks"] if part in each["parts"]]


def _format_part(
    name: str,
    rates: Mapping[str, Any],
    part: Mapping[str, Any],
    subtasks: Sequence[Mapping[str, Any]],
) -> tuple[str, ...]:
    """Return the cells of a part: sums of its subtasks, and means of their shares of time."""
    shares = [
        f"{sum(each[use] for each in subtasks) / len(subtasks):.0%}" if subtasks else ""
        for use in ("busy", "idle", "backpressured")
    ]
    size = sum(
        state["bytes"] + state["bytes_on_disk"]
        for each in subtasks
        for state in each["states"].get(name, {}).values()
    )
    return (
        name,
        str(part["parallelism"]),
        _format_count(part["rows_in"]),
        _format_count(rates.get("in_per_s")),
        _format_count(part["rows_out"]),
        _format_count(rates.get("out_per_s")),
        *shares,
        part["watermark"] or "",
        _format_lag(part["lag_s"]),
        _format_count(part["late"]),
        _format_count(part["bad"]),
        format_size(size) if size else "",
    )


def _format_count(number: float | None) -> str:
    """Format a count or a rate.

    >>> _format_count(1234.5), _format_count(None)
    ('1,234', '')
    """
    return "" if number is None else f"{number:,.0f}"


def _format_lag(seconds: float | None) -> str:
    """Format how far a watermark is behind the clock; one that is ahead has no lag.

    >>> _format_lag(90.5), _format_lag(-5), _format_lag(None)
    ('1 min 30 s', '', '')
    """
    return "" if seconds is None or seconds < 0 else format_duration(seconds)
