"""Extraction of a split's watermark from its rows.

The watermark after some rows is their highest event time less a delay, by default; or the highest
value of a column that carries the watermark; or the result of a user's function:

    def watermark(rows: pl.DataFrame) -> datetime | None

Times are whole microseconds since the epoch. A result below the first of them is raised to it; the
last of them is reserved for the end of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.alignment import BEGINNING_US
from headrace.core.elements import FOREVER_US
from headrace.core.frames import microseconds
from headrace.core.pipeline.model import Function, Watermark
from headrace.core.plan import nodes
from headrace.core.user_code import UserCodeError, load_function, said, where

if TYPE_CHECKING:
    import polars as pl

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)

Reads: TypeAlias = "Callable[[pl.DataFrame], int | None]"


@dataclass(frozen=True, slots=True)
class TimeOf:
    """The watermark function of a source; `read` returns None for rows that imply no watermark.

    `calls_user`: the function runs user code, and may be slow.
    """

    read: Reads
    calls_user: bool = False


def time_of(source: nodes.Source, folder: Path) -> TimeOf:
    """Build the watermark function of a source of the pipeline in that folder.

    Rows without event time imply no watermark.
    """
    if source.event_time is None:
        return TimeOf(lambda rows: None)
    wanted = source.watermark or Watermark()
    if wanted.python is not None:
        return TimeOf(_asked(wanted.python, folder), calls_user=True)
    if wanted.from_ is not None:
        return TimeOf(partial(highest_us, column=str(wanted.from_)))
    return TimeOf(partial(highest_us, column=source.event_time, less=wanted.delay))


def highest_us(rows: pl.DataFrame, column: str, less: timedelta = timedelta()) -> int | None:
    """Return the highest value of a column of timestamps, less a delay; None if all are null."""
    found = microseconds(rows[column]).max()
    if found is None:
        return None
    assert isinstance(found, int)
    return _within(found - less // MICROSECOND)


def micros(time: datetime) -> int:
    """Return a time as microseconds since the epoch; without a zone it is UTC.

    >>> micros(datetime(1970, 1, 1, 0, 0, 1)), micros(datetime(1, 1, 1, tzinfo=UTC))
    (1000000, -62135596800000000)
    """
    naive = time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    return (naive - EPOCH) // MICROSECOND


def _within(at_us: int) -> int:
    return max(BEGINNING_US, min(at_us, FOREVER_US - 1))


def _asked(function: Function, folder: Path) -> Reads:
    """Build a watermark function that calls the user's function."""
    path = function.path(folder)
    ask = load_function(path, function.name)
    name = f"{path.name}:{function.name}"

    def read(rows: pl.DataFrame) -> int | None:
        try:
            answer: Any = ask(rows)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also sys.exit(), or a panic of Polars
            message = f"{where(error, path)}: {said(error)}"
            raise UserCodeError(f"{message} (in a batch of {rows.height} rows)") from error
        if answer is None:
            return None
        if not isinstance(answer, datetime):
            came = type(answer).__name__
            raise UserCodeError(
                f"{name} must return a datetime or None, got {came}",
                'as in def watermark(rows): return rows["at"].max()',
            )
        return _told(answer, name)

    return read


def _told(answer: datetime, name: str) -> int:
    try:
        return micros(answer)
    except OverflowError:
        message = f"{name} returned {answer}, which is not within the years 1 to 9999 in UTC"
        raise UserCodeError(message) from None
