"""Samples of rows that came into no result: bad records, rows on which a step failed, late rows.

A subtask has the newest few of each of its parts. It looks at a few rows a second, so that they
cost nothing even where all rows are bad. They are part of no checkpoint.
Tests: tests/core/worker/test_rejected_rows.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from headrace.core.api.splits import Position
from headrace.core.api.user_code import get_polars_errors
from headrace.core.operators.dead_letters import format_row_text
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.api.sources import Chunk
    from headrace.core.operators.operator import FailedRow

MAX_SAMPLES = 5
"""The rows that a part of a subtask has, and the most that are looked at in an interval."""

INTERVAL_US = 1_000_000
MAX_TEXT = 1000
MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row or a record that came into no result."""

    kind: Literal["bad", "late"]
    at_us: int
    text: str
    """The record as it was read, or the row as JSON: its first characters."""
    length: int
    """The number of characters of the whole text."""
    error: str = ""
    watermark_us: int | None = None
    """The watermark when a late row came."""
    split: str | None = None
    position: Position = None


@dataclass(slots=True)
class RejectedRowSampler:
    """The newest rejected rows of one part of a subtask."""

    now_us: Callable[[], int]
    rows: tuple[RejectedRow, ...] = ()
    """The oldest first; replaced as a whole, since kernels add rows in threads."""
    _room: int = MAX_SAMPLES
    _interval_begin_us: int = field(default=-INTERVAL_US)

    def add_bad_records(self, chunk: Chunk) -> None:
        """Add records of a source."""
        now_us = self.now_us()
        self._append(
            _build_row(
                "bad", now_us, each.raw, each.error, split=chunk.split.name, position=each.position
            )
            for each in chunk.bad_records[: self._take_room(now_us)]
        )

    def add_failed_rows(self, rows: Sequence[FailedRow]) -> None:
        """Add rows on which a step failed."""
        now_us = self.now_us()
        self._append(
            _build_row("bad", now_us, _format_row(each.row), each.error)
            for each in rows[: self._take_room(now_us)]
        )

    def add_late_rows(self, rows: pl.DataFrame, watermark_us: int) -> None:
        """Add late rows, without their hidden columns."""
        now_us = self.now_us()
        if not (room := self._take_room(now_us)):
            return
        shown = rows.head(room).select(name for name in rows.columns if not name.startswith("__"))
        self._append(
            _build_row("late", now_us, text, watermark_us=watermark_us)
            for text in _format_frame(shown)
        )

    def _take_room(self, now_us: int) -> int:
        """Return how many rows are looked at now; a clock that was set back begins an interval."""
        if not 0 <= now_us - self._interval_begin_us < INTERVAL_US:
            self._interval_begin_us, self._room = now_us, MAX_SAMPLES
        return self._room

    def _append(self, rows: Iterable[RejectedRow]) -> None:
        added = tuple(rows)
        self._room -= len(added)
        self.rows = (*self.rows, *added)[-MAX_SAMPLES:]


def select_newest(rows: Iterable[RejectedRow]) -> tuple[RejectedRow, ...]:
    """Return the newest rows of several subtasks, the newest first."""
    return tuple(sorted(rows, key=lambda each: each.at_us, reverse=True)[:MAX_SAMPLES])


def _build_row(
    kind: Literal["bad", "late"],
    at_us: int,
    text: str,
    error: str = "",
    watermark_us: int | None = None,
    split: str | None = None,
    position: Position = None,
) -> RejectedRow:
    cut, reason = text[:MAX_TEXT], error[:MAX_REASON]
    return RejectedRow(kind, at_us, cut, len(text), reason, watermark_us, split, position)


def _format_frame(rows: pl.DataFrame) -> list[str]:
    columns = {column.name: _list_values(column) for column in rows.get_columns()}
    return [
        _format_row(dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]


def _list_values(column: pl.Series) -> list[object]:
    """Return the values of a column; Python lacks some, as times after the year 9999."""
    try:
        return column.to_list()
    except get_polars_errors():
        return [f"a {column.dtype} that cannot be shown"] * len(column)


def _format_row(row: dict[str, object]) -> str:
    """Return a row as JSON, or as Python shows it if a value has no JSON."""
    try:
        return format_row_text(row)
    except get_polars_errors():
        return str(row)
