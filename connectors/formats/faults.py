"""Bad records while a block is decoded: error texts by the number of the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.lines import RecordLine
from headrace.core.contracts import BadRecord
from headrace.core.types import Field

if TYPE_CHECKING:
    import polars as pl

MAX_SHOWN = 60


class RecordErrors(dict[int, str]):
    """The first error of each bad record of a block, by the number of the record."""


def describe_invalid_value(field: Field, got: str) -> str:
    """Return the error text of a field whose value is not of its type."""
    return f'column "{field.name}": wanted {field.type}, got {got}'


def shorten_text(text: str) -> str:
    """Return the text, cut if it is long."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def build_frame(columns: Sequence[pl.Series], rows: int) -> pl.DataFrame:
    """Build a frame of these columns; without columns, it still has the rows."""
    import polars as pl

    return pl.DataFrame(columns) if columns else pl.DataFrame(height=rows)


def split_bad_records(
    frame: pl.DataFrame, faults: RecordErrors, record: Callable[[int], RecordLine]
) -> DecodedBlock:
    """Split a frame with a row for each record into the good rows and the bad records."""
    import polars as pl

    if not faults:
        return frame, ()
    bad = []
    for row in sorted(faults):
        position, text = record(row)
        bad.append(BadRecord(faults[row], position, text.decode("utf-8", "replace")))
    if not frame.width:
        return pl.DataFrame(height=frame.height - len(bad)), tuple(bad)
    good = pl.Series([True], dtype=pl.Boolean).new_from_index(0, frame.height)
    return frame.filter(good.scatter(list(faults), False)), tuple(bad)
