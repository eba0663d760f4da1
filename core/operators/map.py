"""`map`: a user function over a batch of rows, or over one row at a time.

    def score(rows: pl.DataFrame) -> pl.DataFrame       # mode: batch
    def score(row: dict) -> dict | list[dict] | None    # mode: row

Results are checked against the declared columns: their names, and types that hold every value. A
batch function returns as many rows as it got, so that each keeps its event time, or the step names
the result column that is the event time. A row function may return no row, one, or several.

Of upserts, the function gets those that delete no row. It returns at most one row for each, with
the same key; without a row, the row with the key is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.core.api.user_code import (
    UserCodeError,
    format_error,
    format_row,
    load_function,
    locate_error,
    reraise_interrupt,
)
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, FailedRow, Output, StatelessOperator
from headrace.core.operators.user_results import ResultSchema
from headrace.core.plan import nodes
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.data_types import quote_name
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER
from headrace.core.types.out_of_range_times import find_out_of_range_columns, format_out_of_range
from headrace.core.types.row_order import number_parts, update_row_time

if TYPE_CHECKING:
    import polars as pl


class MapOperator(StatelessOperator):
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
        self._schema = ResultSchema(self._name, operation.returns)
        self._event_time = operation.event_time
        self._changelog_key = operation.changelog_key
        self._by_row = operation.mode == "row"
        self._on_failure = failed
        self._function = load_function(self._path, operation.function)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the function's results for the rows."""
        with attribute_errors_to(self._step):
            try:
                yield from self._apply_function(frame)
            except (Exception, GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit(), or a panic of Polars
                raise UserCodeError(
                    f"{locate_error(error, self._path)}: {format_error(error)}"
                ) from error

    def _apply_function(self, frame: pl.DataFrame) -> Iterator[Output]:
        if not frame.height:
            return
        if self._changelog_key is None:
            yield from self._apply_to_frame(frame)
        else:
            yield from self._apply_to_upserts(frame, self._changelog_key)

    def _apply_to_upserts(self, frame: pl.DataFrame, key: tuple[str, ...]) -> Iterator[Output]:
        """Emit the result of the last upsert of each key, or the delete of the key."""
        import polars as pl

        if DELETE not in frame.columns:
            frame = frame.with_columns(pl.lit(False).alias(DELETE))
        names = list(key)
        last = frame.unique(names, keep="last", maintain_order=True) if names else frame.tail(1)
        found = last.head(0).select(names)
        for stream, rows in self._apply_to_frame(last.filter(~pl.col(DELETE).fill_null(False))):
            if stream == self._stream:
                found = pl.concat(
                    [found, rows.select(pl.col(n).cast(frame.schema[n]) for n in names)]
                )
                rows = rows.with_columns(pl.lit(False).alias(DELETE))
            yield stream, rows
        gone = last.join(found, on=names, how="anti", nulls_equal=True, maintain_order="left")
        if gone.height:
            values = {
                name: pl.col(name) if name in key else pl.lit(None) for name in self._schema.types
            }
            typed = (
                values[name].cast(type).alias(name) for name, type in self._schema.types.items()
            )
            result = gone.select(*typed).hstack(_select_hidden(gone).get_columns())
            yield self._stream, result.with_columns(pl.lit(True).alias(DELETE))

    def _apply_to_frame(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the function's results for rows."""
        if not frame.height:
            return
        shown, hidden = frame.drop(HIDDEN_COLUMNS, strict=False), _select_hidden(frame)
        if not self._by_row:
            yield self._stream, self._apply_to_batch(shown, hidden)
            return
        for start in range(0, frame.height, MAX_OUTPUT_ROWS):
            piece = shown.slice(start, MAX_OUTPUT_ROWS)
            yield from self._apply_to_rows(piece, hidden.slice(start, MAX_OUTPUT_ROWS))

    def _apply_to_batch(self, frame: pl.DataFrame, hidden: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        try:
            result = self._function(frame)
        except BaseException as error:
            reraise_interrupt(error)
            message = f"{locate_error(error, self._path)}: {format_error(error)}"
            raise UserCodeError(f"{message} (in a batch of {frame.height} rows)") from error
        if not isinstance(result, pl.DataFrame):
            actual = type(result).__name__
            raise UserCodeError(f"{self._name} must return a polars DataFrame, got {actual}")
        result = self._schema.validate_frame(result)
        if self._changelog_key is not None:
            self._check_keys(frame, result)
        if result.height == frame.height:
            return self._add_hidden_columns(result, hidden)
        if EVENT_TIME in hidden.columns and not self._event_time:
            raise UserCodeError(
                f"{self._name} got {frame.height} rows and returned {result.height}",
                "name the column that is their event time: map: {event_time: COLUMN}",
            )
        # The origin of each row is unknown: all of them count as parts of the first row.
        first = pl.repeat(0, result.height, dtype=pl.UInt32, eager=True)
        number = pl.int_range(result.height, eager=True)
        return self._add_hidden_columns(result, _expand_hidden(hidden, first, number))

    def _check_keys(
        self, rows: pl.DataFrame, result: pl.DataFrame, numbers: Sequence[int] = ()
    ) -> None:
        """Check that each result has the key of its row, and is the only one of it."""
        assert self._changelog_key is not None, "only upserts have a key"
        key = ", ".join(self._changelog_key)
        hint = f"or set changes: true, then each change is a row with a column {CHANGE}"
        if result.height != rows.height or any(numbers):
            message = f"{self._name} returned several rows for a row of a table"
            if not numbers:
                message = (
                    f"{self._name} got {rows.height} rows of a table and returned {result.height}"
                )
            raise UserCodeError(message, f"return one for each; {hint}")
        for name in self._changelog_key:
            if result.schema[name] != rows.schema[name]:
                message = (
                    f'{self._name} returns the key "{name}" as {result.schema[name]}, '
                    f"but in its rows it is {rows.schema[name]}"
                )
                raise UserCodeError(message, f"declare it with its type; {hint}")
            if not result[name].eq_missing(rows[name]).all():
                message = f"{self._name} changed the key of a row: {key}"
                raise UserCodeError(message, f"return it unchanged; {hint}")

    def _add_hidden_columns(self, result: pl.DataFrame, hidden: pl.DataFrame) -> pl.DataFrame:
        """Add these hidden columns, and the event time that the rows name themselves."""
        if hidden.width:
            result = result.hstack(hidden.get_columns())
        if self._event_time is None:
            return result
        result = result.with_columns(result[self._event_time].alias(EVENT_TIME))
        return update_row_time(result) if ORDER in result.columns else result

    def _apply_to_rows(self, frame: pl.DataFrame, hidden: pl.DataFrame) -> Iterator[Output]:
        import polars as pl

        made: list[dict[str, Any]] = []
        origin: list[int] = []
        number: list[int] = []
        failures: list[FailedRow] = []
        frame, hidden = self._drop_unrepresentable(frame, hidden, failures)
        for at, row in enumerate(frame.iter_rows(named=True)):
            try:
                answer = self._schema.parse_rows(self._function(dict(row)))
            except Exception as error:
                failures.append(self._build_failure(error, row))
                continue
            except BaseException as error:  # sys.exit() ends the job, whatever on_error is
                reraise_interrupt(error)
                raise self._build_error(error, row) from error
            made.extend(answer)
            origin.extend([at] * len(answer))
            number.extend(range(len(answer)))
        if failures:
            assert self._on_failure is not None, "without a target, a failure is raised"
            yield from self._on_failure(failures)
        result = self._schema.build_frame(made)
        if self._changelog_key is not None:
            self._check_keys(frame[origin], result, number)
        whence, which = pl.Series(origin, dtype=pl.UInt32), pl.Series(number, dtype=pl.Int64)
        yield self._stream, self._add_hidden_columns(result, _expand_hidden(hidden, whence, which))

    def _drop_unrepresentable(
        self, frame: pl.DataFrame, hidden: pl.DataFrame, failures: list[FailedRow]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Remove the rows with a timestamp that Python cannot represent: they fail."""
        import polars as pl

        columns = find_out_of_range_columns(frame)
        for at, column in enumerate(columns):
            if column is not None:
                failures.append(self._build_time_failure(column, frame.slice(at, 1)))
        if not columns:
            return frame, hidden
        fitting = pl.Series([column is None for column in columns], dtype=pl.Boolean)
        return frame.filter(fitting), hidden.filter(fitting) if hidden.width else hidden

    def _build_time_failure(self, column: str, row: pl.DataFrame) -> FailedRow:
        shown = format_out_of_range(row).row(0, named=True)
        message = (
            f"{self._name}: column {quote_name(column)} has a time outside the years 1 to 9999"
        )
        if self._on_failure is None:
            hint = "Python has no such time: drop it before the step, or cast it to string"
            raise UserCodeError(f"{message} (in the row {format_row(shown)})", hint)
        return FailedRow(message, shown)

    def _build_failure(self, error: Exception, row: dict[str, Any]) -> FailedRow:
        message = error.message if isinstance(error, UserCodeError) else format_error(error)
        if self._on_failure is None:
            raise self._build_error(error, row) from error
        return FailedRow(f"{locate_error(error, self._path)}: {message}", row)

    def _build_error(self, error: BaseException, row: dict[str, Any]) -> UserCodeError:
        message = error.message if isinstance(error, UserCodeError) else format_error(error)
        place = locate_error(error, self._path)
        return UserCodeError(f"{place}: {message} (in the row {format_row(row)})")


def _select_hidden(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the event time and row order columns, if present."""
    return frame.select(name for name in (EVENT_TIME, ORDER) if name in frame.columns)


def _expand_hidden(hidden: pl.DataFrame, origin: pl.Series, number: pl.Series) -> pl.DataFrame:
    """Return the hidden columns of rows made from these, numbered within their origin."""
    if not hidden.width:
        return hidden
    hidden_rows = hidden[origin]
    return number_parts(hidden_rows, number) if ORDER in hidden_rows.columns else hidden_rows
