"""Conversion of a source's chunk into rows with hidden columns, and into dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import Chunk
from headrace.core.operators import dead_letters
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER, SEQUENCE
from headrace.core.types.row_order import add_row_order, number_rows

if TYPE_CHECKING:
    import polars as pl

BAD_RECORD_HINT = "on_error: skip leaves such records out, on_error: {to: NAME} collects them"


def number_chunk_rows(source: int, chunk: Chunk, before: int) -> pl.DataFrame:
    """Return the chunk's rows, numbered in the order of all rows.

    `source` is the number of the source, `before` the number of earlier rows in the split.
    """
    at = number_rows(source, chunk.split.number, before, chunk.frame.height)
    return chunk.frame.hstack([at.alias(ORDER)])


def add_event_time(source: nodes.Source, frame: pl.DataFrame) -> pl.DataFrame:
    """Add the event time, and, to numbered rows, the order column."""
    if source.event_time is not None:
        frame = frame.hstack([_get_event_times(frame, source.event_time).alias(EVENT_TIME)])
    frame = drop_computed_times(source, frame)
    return add_row_order(frame, frame[ORDER]) if ORDER in frame.columns else frame


def _get_event_times(frame: pl.DataFrame, column: str) -> pl.Series:
    """Return the event times of rows; that of a row before an update is not its own."""
    if nodes.IS_OLD_ROW not in frame.columns:
        return frame[column]
    times = frame[column]
    return times.zip_with(~frame[nodes.IS_OLD_ROW], times.clear(1))


def drop_computed_times(source: nodes.Source, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without the columns of computed times, and without those of records."""
    names = [column.name for column in source.times if column.name != SEQUENCE]
    if source.table is not None:
        names += [name for name in source.table.metadata if name != DELETE]
        names.append(nodes.IS_OLD_ROW)
    return frame.drop(names, strict=False) if names else frame


def build_bad_record_error(chunk: Chunk) -> ConnectorError:
    """Return the error for the first bad record of a chunk, if bad records fail the job."""
    first = chunk.bad_records[0]
    return ConnectorError(
        f"bad record: {first.error}: {_shorten(first.raw)}",
        BAD_RECORD_HINT,
        split=chunk.split.name,
        position=first.position,
    )


def build_dead_letters(
    source: nodes.Source, number: int, chunk: Chunk, before: int, now_us: int
) -> pl.DataFrame:
    """Return dead letters for the bad records; `before` is the number of earlier ones."""
    rows = dead_letters.from_bad_records(source.name, chunk.split, chunk.bad_records, now_us)
    if not source.outputs[1].has_row_order:
        return rows
    return add_row_order(
        rows, number_rows(number, chunk.split.number, before, len(chunk.bad_records))
    )


def _shorten(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
