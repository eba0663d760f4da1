"""Bad records on their way: by their number in a block, with what is wrong, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.connectors.formats.contract import Decoded
from headrace.connectors.formats.lines import Line
from headrace.core.contracts import BadRecord
from headrace.core.types import Field

if TYPE_CHECKING:
    import polars as pl

LONGEST = 60


class Faults(dict[int, str]):
    """What is wrong with the records of a block, by their number; the first fault is told."""


def unfit(field: Field, got: str) -> str:
    """A field does not hold what it should."""
    return f'column "{field.name}": wanted {field.type}, got {got}'


def short(text: str) -> str:
    """The text, if it is long only its beginning."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def framed(columns: Sequence[pl.Series], rows: int) -> pl.DataFrame:
    """A frame of these columns; of none, the rows are still there."""
    import polars as pl

    return pl.DataFrame(columns) if columns else pl.DataFrame(height=rows)


def parted(frame: pl.DataFrame, faults: Faults, record: Callable[[int], Line]) -> Decoded:
    """The rows, one of each record, without those that have a fault; and those records."""
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
