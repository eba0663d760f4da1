"""`map`: a user function over a batch of rows, or over one row at a time.

    def score(rows: pl.DataFrame) -> pl.DataFrame       # mode: batch
    def score(row: dict) -> dict | list[dict] | None    # mode: row

Results are checked against the declared columns: their names, and types that hold every value. A
batch function returns as many rows as it got, so that each keeps its event time, or the step names
the result column that is the event time. A row function may return no row, one, or several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.core.blame import blamed
from headrace.core.elements import EVENT_TIME, HIDDEN, ORDER
from headrace.core.far_times import near, unfit
from headrace.core.operators.operator import MOST_ROWS, Output, Stateless
from headrace.core.operators.returned import Returned
from headrace.core.ordinals import parted, retimed
from headrace.core.plan import nodes
from headrace.core.types import quoted
from headrace.core.user_code import UserCodeError, load_function, row_said, said, where

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row on which user code failed, and the error."""

    error: str
    row: dict[str, Any]


class Map(Stateless):
    """The operator of `map`.

    `failed` takes the rows on which a row function fails; without it they fail the job.
    """

    def __init__(
        self,
        step: str,
        stream: str,
        operation: nodes.Map,
        folder: Path,
        failed: Callable[[list[FailedRow]], Iterator[Output]] | None = None,
    ) -> None:
        self._step = step
        self._stream = stream
        self._path = folder / operation.file
        self._name = f"{Path(operation.file).name}:{operation.function}"
        self._schema = Returned(self._name, operation.returns)
        self._event_time = operation.event_time
        self._by_row = operation.mode == "row"
        self._on_failure = failed
        self._function = load_function(self._path, operation.function)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the function's results for the rows."""
        with blamed(self._step):
            try:
                yield from self._made(frame)
            except (Exception, GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit(), or a panic of Polars
                raise UserCodeError(f"{where(error, self._path)}: {said(error)}") from error

    def _made(self, frame: pl.DataFrame) -> Iterator[Output]:
        if not frame.height:
            return
        shown, hidden = frame.drop(HIDDEN, strict=False), _hidden(frame)
        if not self._by_row:
            yield self._stream, self._batch(shown, hidden)
            return
        for start in range(0, frame.height, MOST_ROWS):
            piece = shown.slice(start, MOST_ROWS)
            yield from self._rows(piece, hidden.slice(start, MOST_ROWS))

    def _batch(self, frame: pl.DataFrame, hidden: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        try:
            result = self._function(frame)
        except Exception as error:
            message = f"{where(error, self._path)}: {said(error)}"
            raise UserCodeError(f"{message} (in a batch of {frame.height} rows)") from error
        if not isinstance(result, pl.DataFrame):
            came = type(result).__name__
            raise UserCodeError(f"{self._name} must return a polars DataFrame, got {came}")
        result = self._schema.declared(result)
        if result.height == frame.height:
            return self._timed(result, hidden)
        if EVENT_TIME in hidden.columns and not self._event_time:
            raise UserCodeError(
                f"{self._name} got {frame.height} rows and returned {result.height}",
                "name the column that is their event time: map: {event_time: COLUMN}",
            )
        # The origin of each row is unknown: all of them count as parts of the first row.
        first = pl.repeat(0, result.height, dtype=pl.UInt32, eager=True)
        number = pl.int_range(result.height, eager=True)
        return self._timed(result, _parted(hidden, first, number))

    def _timed(self, result: pl.DataFrame, hidden: pl.DataFrame) -> pl.DataFrame:
        """Add these hidden columns, and the event time that the rows name themselves."""
        if hidden.width:
            result = result.hstack(hidden.get_columns())
        if self._event_time is None:
            return result
        result = result.with_columns(result[self._event_time].alias(EVENT_TIME))
        return retimed(result) if ORDER in result.columns else result

    def _rows(self, frame: pl.DataFrame, hidden: pl.DataFrame) -> Iterator[Output]:
        import polars as pl

        made: list[dict[str, Any]] = []
        origin: list[int] = []
        number: list[int] = []
        failures: list[FailedRow] = []
        frame, hidden = self._of_python(frame, hidden, failures)
        for at, row in enumerate(frame.iter_rows(named=True)):
            try:
                answer = self._schema.rows(self._function(dict(row)))
            except Exception as error:
                failures.append(self._failure(error, row))
                continue
            made.extend(answer)
            origin.extend([at] * len(answer))
            number.extend(range(len(answer)))
        if failures:
            assert self._on_failure is not None, "without a target, a failure is raised"
            yield from self._on_failure(failures)
        result = self._schema.frame(made)
        whence, which = pl.Series(origin, dtype=pl.UInt32), pl.Series(number, dtype=pl.Int64)
        yield self._stream, self._timed(result, _parted(hidden, whence, which))

    def _of_python(
        self, frame: pl.DataFrame, hidden: pl.DataFrame, failures: list[FailedRow]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Remove the rows with a timestamp that Python cannot represent: they fail."""
        import polars as pl

        columns = unfit(frame)
        for at, column in enumerate(columns):
            if column is not None:
                failures.append(self._unfit(column, frame.slice(at, 1)))
        if not columns:
            return frame, hidden
        fitting = pl.Series([column is None for column in columns], dtype=pl.Boolean)
        return frame.filter(fitting), hidden.filter(fitting) if hidden.width else hidden

    def _unfit(self, column: str, row: pl.DataFrame) -> FailedRow:
        shown = near(row).row(0, named=True)
        message = f"{self._name}: column {quoted(column)} has a time outside the years 1 to 9999"
        if self._on_failure is None:
            hint = "Python has no such time: drop it before the step, or cast it to string"
            raise UserCodeError(f"{message} (in the row {row_said(shown)})", hint)
        return FailedRow(message, shown)

    def _failure(self, error: Exception, row: dict[str, Any]) -> FailedRow:
        message = error.message if isinstance(error, UserCodeError) else said(error)
        if self._on_failure is None:
            place = where(error, self._path)
            raise UserCodeError(f"{place}: {message} (in the row {row_said(row)})") from error
        return FailedRow(f"{where(error, self._path)}: {message}", row)


def _hidden(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the event time and row order columns, if present."""
    return frame.select(name for name in (EVENT_TIME, ORDER) if name in frame.columns)


def _parted(hidden: pl.DataFrame, origin: pl.Series, number: pl.Series) -> pl.DataFrame:
    """Return the hidden columns of rows made from these, numbered within their origin."""
    if not hidden.width:
        return hidden
    taken = hidden[origin]
    return parted(taken, number) if ORDER in taken.columns else taken
