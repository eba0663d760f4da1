"""Extraction of a split's watermark from its rows.

The watermark after some rows is their highest event time less a delay, by default; or the highest
value of a column that carries the watermark; or the result of a user's function:

    def watermark(rows: pl.DataFrame) -> datetime | None

Times are whole microseconds since the epoch. A result below the first of them is raised to it; the
last of them is reserved for the end of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.api.user_code import (
    UserCodeError,
    format_error,
    load_function,
    locate_error,
    reraise_interrupt,
)
from headrace.core.pipeline.model import Watermark
from headrace.core.pipeline.user_files.references import UserFunction
from headrace.core.plan import nodes
from headrace.core.types.elements import MAX_WATERMARK_US, MIN_WATERMARK_US
from headrace.core.types.frames import to_integers
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)

WatermarkFunction: TypeAlias = "Callable[[pl.DataFrame], int | None]"


@dataclass(frozen=True, slots=True)
class WatermarkExtractor:
    """The watermark function of a source; `extract` returns None for rows that imply no watermark.

    `calls_user_code`: the function runs user code, and may be slow. `column`: the column that
    carries the watermark, which holds for the rows after its own.
    """

    extract: WatermarkFunction
    calls_user_code: bool = False
    column: str | None = None


def build_watermark_extractor(source: nodes.Source, folder: Path) -> WatermarkExtractor:
    """Build the watermark function of a source of the pipeline in that folder.

    Rows without event time imply no watermark.
    """
    if source.event_time is None:
        return WatermarkExtractor(lambda rows: None)
    wanted = source.watermark or Watermark()
    if wanted.python is not None:
        return WatermarkExtractor(_build_user_function(wanted.python, folder), calls_user_code=True)
    if wanted.from_ is not None:
        column = source.watermark_column
        assert column is not None
        return WatermarkExtractor(partial(find_max_us, column=column), column=column)
    return WatermarkExtractor(partial(find_max_us, column=source.event_time, less=wanted.delay))


def find_max_us(rows: pl.DataFrame, column: str, less: timedelta = timedelta()) -> int | None:
    """Return the highest value of a column of timestamps, less a delay; None if all are null."""
    found = to_integers(rows[column]).max()
    if found is None:
        return None
    assert isinstance(found, int)
    return _clamp(found - less // MICROSECOND)


def find_late_rows(
    rows: pl.DataFrame, event_time: str, column: str, reached_us: int, announced_us: int
) -> list[tuple[int, int]]:
    """Return the first row that is behind each watermark of earlier rows, and that watermark.

    `reached_us` is the watermark before the rows. Rows behind watermarks up to `announced_us` do
    not count: that one separates them from the rows before it already.
    """
    marks = to_integers(rows[column]).clip(MIN_WATERMARK_US, MAX_WATERMARK_US - 1)
    before = marks.cum_max().forward_fill().shift(1).fill_null(reached_us).clip(reached_us)
    late = (to_integers(rows[event_time]) < before).arg_true()
    watermarks = before[late]
    is_new = watermarks > watermarks.shift(1, fill_value=announced_us).clip(announced_us)
    return list(zip(late.filter(is_new), watermarks.filter(is_new), strict=True))


def to_microseconds(time: datetime) -> int:
    """Return a time as microseconds since the epoch; without a zone it is UTC.

    >>> (
    ...     to_microseconds(datetime(1970, 1, 1, 0, 0, 1)),
    ...     to_microseconds(datetime(1, 1, 1, tzinfo=UTC)),
    ... )
    (1000000, -62135596800000000)
    """
    naive = time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    return (naive - EPOCH) // MICROSECOND


def _clamp(at_us: int) -> int:
    return max(MIN_WATERMARK_US, min(at_us, MAX_WATERMARK_US - 1))


def _build_user_function(function: UserFunction, folder: Path) -> WatermarkFunction:
    """Build a watermark function that calls the user's function."""
    path = function.resolve_path(folder)
    user_function = load_function(path, function.name)
    name = f"{path.name}:{function.name}"

    def read(rows: pl.DataFrame) -> int | None:
        try:
            answer: Any = user_function(rows)
        except BaseException as error:  # also sys.exit(), or a panic of Polars
            reraise_interrupt(error)
            message = f"{locate_error(error, path)}: {format_error(error)}"
            raise UserCodeError(f"{message} (in a batch of {rows.height} rows)") from error
        if answer is None:
            return None
        if not isinstance(answer, datetime):
            actual = type(answer).__name__
            raise UserCodeError(
                f"{name} must return a datetime or None, got {actual}",
                'as in def watermark(rows): return rows["at"].max()',
            )
        return _convert_result(answer, name)

    return read


def _convert_result(answer: datetime, name: str) -> int:
    try:
        return to_microseconds(answer)
    except OverflowError:
        message = f"{name} returned {answer}, which is not within the years 1 to 9999 in UTC"
        raise UserCodeError(message) from None
