"""The computed times of a source's rows: event time and watermark as expressions over a row.

A record whose event time is null, out of range or cannot be computed is bad; one that deletes a row
of a table may have none, unless a reader needs it. A change of a table without its sequence is bad.
Rows for which the condition of the times is not true have no event time: a step drops them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.api.sources import BadRecord, Chunk
from headrace.core.expressions.checked_expressions import CheckedExpressions
from headrace.core.operators.dead_letters import format_row_text
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE, SEQUENCE
from headrace.core.types.frames import to_integers

if TYPE_CHECKING:
    import polars as pl

_CONDITION = "__has_time"
_FIRST_US, _END_US = -62_135_596_800_000_000, 253_402_300_800_000_000
"""The years 1 to 9999 in microseconds since the epoch."""


class RowTimes:
    """The computation of the times of a source's rows, chunk by chunk."""

    def __init__(self, source: nodes.Source) -> None:
        self._texts = {column.name: column.text for column in source.times}
        values = {column.name: column.value for column in source.times}
        if source.time_condition is not None:
            values[_CONDITION] = source.time_condition
        self._has_condition = source.time_condition is not None
        self._names = [*self._texts]
        self._expressions = CheckedExpressions(values) if source.times else None

    def add_to(self, chunk: Chunk) -> Chunk:
        """Return the chunk with the columns of the times, and with more bad records."""
        if self._expressions is None or not chunk.frame.height:
            return chunk
        import polars as pl

        rows, bad, first = [], list[BadRecord](), 0
        for piece in self._expressions.evaluate(chunk.frame):
            errors = {
                row: each.message for of in piece.failures.values() for row, each in of.items()
            }
            errors = self._find_bad_times(piece.rows, piece.values) | errors
            frame = piece.rows.hstack(piece.values.select(self._names))
            if errors:
                bad += _list_bad_records(chunk, first, piece.rows, errors)
                numbers = pl.int_range(frame.height, eager=True)
                frame = frame.filter(~numbers.is_in(sorted(errors)))
            rows.append(frame)
            first += piece.rows.height
        frame = rows[0] if len(rows) == 1 else pl.concat(rows)
        return replace(chunk, frame=frame, bad_records=(*chunk.bad_records, *bad))

    def _find_bad_times(self, rows: pl.DataFrame, values: pl.DataFrame) -> dict[int, str]:
        """Return the rows without a sequence or an event time in range, each with the reason."""
        unordered: dict[int, str] = {}
        if SEQUENCE in self._texts:
            message = f"the sequence {self._texts[SEQUENCE]} is null"
            unordered = dict.fromkeys(values[SEQUENCE].is_null().arg_true(), message)
        name = nodes.EVENT_TIME_VALUE
        if name not in self._texts:
            return unordered
        text = self._texts[name]
        times = to_integers(values[name])
        is_null = times.is_null()
        if DELETE in rows.columns:
            # Where changes are versions, only the row before an update has no time of its own.
            is_null &= ~rows[nodes.IS_OLD_ROW if nodes.IS_OLD_ROW in rows.columns else DELETE]
        is_out = (times < _FIRST_US) | (times >= _END_US)
        if self._has_condition:
            wanted = values[_CONDITION].fill_null(False)
            is_null, is_out = is_null & wanted, is_out & wanted
        out = "is not within the years 1 to 9999"
        return {
            **unordered,
            **{row: f"the event time {text} is null" for row in is_null.arg_true()},
            **{row: f"the event time {text} {out}" for row in is_out.fill_null(False).arg_true()},
        }


def _list_bad_records(
    chunk: Chunk, first: int, rows: pl.DataFrame, errors: Mapping[int, str]
) -> list[BadRecord]:
    """Return the bad records of the rows of a chunk from `first` on."""
    found = sorted(errors)
    texts = [format_row_text(row) for row in rows[found].iter_rows(named=True)]
    positions = chunk.locate_rows([first + row for row in found])
    return [
        BadRecord(errors[row], position, text)
        for row, position, text in zip(found, positions, texts, strict=True)
    ]
