"""The operator of a process class that handles batches of rows (`on_rows`).

The frames that the class emits are validated against the declared outputs. The class gets rows of
many keys in the order of time; states and timers are columns, read and written in bulk. Timers are
handled one by one. The rows of a key that come after one of its timers wait until the timer has
been handled, so that each key sees everything in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import SLOT
from headrace.core.api.user_code import UserCodeError, reraise_interrupt
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output
from headrace.core.operators.process.collector import MAIN_OUTPUT, add_hidden_columns
from headrace.core.operators.process.key_batch import (
    BatchStateColumns,
    KeyBatch,
    build_state_columns,
    encode_joinable,
)
from headrace.core.operators.process.process_operator import ProcessComponents, ProcessOperator
from headrace.core.operators.process.row_calls import CHUNK_ROWS, build_row_display
from headrace.core.operators.process.timers import TimerHeap
from headrace.core.operators.process.user_inputs import UserInput
from headrace.core.types.data_types import Schema, to_polars
from headrace.core.types.elements import EVENT_TIME, HIDDEN_COLUMNS, MAX_WATERMARK_US, ORDER
from headrace.core.types.frames import to_integers

if TYPE_CHECKING:
    import polars as pl


class FrameCollector:
    """A collector of the frames that `on_rows` emits, with the input rows they belong to."""

    def __init__(self, outputs: Mapping[str, Schema]) -> None:
        """`outputs` are by name; the step's own output is named ""."""
        self._rows = 0
        self.frames: list[tuple[str, pl.DataFrame, pl.Series]] = []
        self.out: Any = self._build_emit("", outputs[""])
        for name, schema in outputs.items():
            if name:
                setattr(self.out, name, self._build_emit(name, schema))

    def start_batch(self, rows: int) -> None:
        """Start a batch of this many rows."""
        self._rows, self.frames = rows, []

    def _build_emit(self, name: str, schema: Schema) -> Callable[..., None]:
        shown = f"out.{name}" if name else "out"

        def emit(frame: pl.DataFrame, of: pl.Series | None = None) -> None:
            declared = _validate_frame(shown, schema, frame)
            self.frames.append(
                (name, declared, _resolve_origins(shown, declared.height, of, self._rows))
            )

        emit.__name__ = emit.__qualname__ = shown
        return emit


def _validate_frame(shown: str, schema: Schema, frame: object) -> pl.DataFrame:
    """Return the frame with the declared columns, in their order."""
    import polars as pl

    if not isinstance(frame, pl.DataFrame):
        raise TypeError(f"{shown}: wanted a polars DataFrame, got {type(frame).__name__}")
    if set(frame.columns) != set(schema.names):
        actual = ", ".join(frame.columns) or "none"
        raise ValueError(f"{shown}: wanted the columns {', '.join(schema.names)}, got {actual}")
    for field in schema:
        wanted, actual_type = to_polars(field.type), frame.schema[field.name]
        if actual_type not in (wanted, pl.Null):
            message = f'{shown}: column "{field.name}" is declared {field.type} ({wanted})'
            raise TypeError(f"{message}, but has type {actual_type}")
        if not field.nullable and frame[field.name].null_count():
            message = f'{shown}: column "{field.name}" is declared not null, but has nulls'
            raise ValueError(message)
    return frame.select(pl.col(field.name).cast(to_polars(field.type)) for field in schema)


def _resolve_origins(shown: str, height: int, of: object, rows: int) -> pl.Series:
    """Return the number of the input row that each emitted row belongs to."""
    import polars as pl

    if of is None:
        if height != rows:
            message = f"{shown}: got {rows} rows and emitted {height}: say which row each is of"
            raise ValueError(f"{message}, as in {shown}(frame, of=numbers)")
        return pl.int_range(rows, dtype=pl.UInt32, eager=True)
    if not isinstance(of, pl.Series):
        raise TypeError(f"{shown}: of must be a Series, got {type(of).__name__}")
    if of.dtype == pl.Boolean:
        if len(of) != rows:
            raise ValueError(f"{shown}: of has {len(of)} values for {rows} rows")
        of = of.fill_null(False).arg_true()
    if len(of) != height:
        raise ValueError(f"{shown}: of names {len(of)} rows for {height} emitted rows")
    among = (of >= 0) & (of < rows)
    if not among.fill_null(False).all():
        raise ValueError(f"{shown}: of must be numbers from 0 to {rows - 1}")
    if not of.is_sorted():
        raise ValueError(f"{shown}: of must be in ascending order: sort the rows by it")
    return of.cast(pl.UInt32)


class VectorisedProcessOperator(ProcessOperator):
    """The operator of a class with `on_rows`."""

    method = "on_rows"

    def __init__(self, parts: ProcessComponents, inputs: Sequence[UserInput]) -> None:
        super().__init__(parts, inputs)
        context, body, state = parts.user_context, parts.body, parts.state
        if context.on_failure is not None:
            message = f"{context.code.display_name}: on_rows fails with all of its rows"
            raise UserCodeError(message, "on_error: skip and to are for classes with on_row")
        self._key = inputs[0].grouping.internal_names
        self._state_columns = build_state_columns(
            dict(body.states),
            state.cache.tables,
            parts.context.now_us,
            lambda declared: state.clock_timers if declared.processing else state.event_timers,
        )
        self._states = BatchStateColumns(self._state_columns)
        self._frame_collector = FrameCollector({MAIN_OUTPUT: body.returns, **dict(body.outputs)})
        self._streams = context.name_streams(body, parts.context.stream)

    def _handle_rows(
        self, frames: Sequence[pl.DataFrame | None], timers: TimerHeap | None, before_us: int = 0
    ) -> Iterator[Output]:
        (rest,) = frames
        while rest is not None:
            first = None if timers is None else self._find_first_timers(before_us)
            now, rest = (rest, None) if first is None else self._split_rows(rest, first)
            for start in range(0, now.height, MAX_OUTPUT_ROWS):
                yield from self._call_on_rows(now.slice(start, MAX_OUTPUT_ROWS))
            if first is not None and timers is not None:
                yield from self._fire_first_timers(timers, before_us)

    def _fire_timers(
        self, timers: TimerHeap, before_us: int, event_us: int | None
    ) -> Iterator[Output]:
        for due in (self._state.event_timers, self._state.clock_timers):
            if due is not None and due.heap is timers:
                while due.next_us < before_us:
                    due.load_due(before_us)
                    yield from super()._fire_timers(timers, before_us, event_us)
                    self._state.evict()

    def _load_timers(self, before_us: int) -> None:
        """Do nothing: timers are loaded round by round, as rows set them."""

    def _find_first_timers(self, before_us: int) -> pl.DataFrame | None:
        """Return the first timer of each key that has one before that time."""
        assert self._state.event_timers is not None
        return self._state.event_timers.find_first_timers(before_us)

    def _split_rows(
        self, rows: pl.DataFrame, first: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Split rows into those before the first timer of their key, and the others."""
        key = self._key
        named = encode_joinable(first.select(key)).with_columns(first[SLOT])
        by = encode_joinable(rows.select(key))
        found = by.join(named, on=by.columns, how="left", nulls_equal=True, maintain_order="left")
        waits = (to_integers(rows[EVENT_TIME]) > found[SLOT]).fill_null(False)
        later = rows.filter(waits)
        return rows.filter(~waits), later if later.height else None

    def _fire_first_timers(self, timers: TimerHeap, before_us: int) -> Iterator[Output]:
        """Handle the first timer of each key that has one before that time."""
        assert self._state.event_timers is not None
        self._state.event_timers.load_first_timers(before_us)
        due = list(timers.pop_due(before_us))
        nothing = self._build_empty_frame()
        for start in range(0, len(due), CHUNK_ROWS):
            self._caller.start_timers()
            some = islice(due, start, start + CHUNK_ROWS)
            self._caller.fire(some, is_end=before_us == MAX_WATERMARK_US)
            yield from self._emit_collected(nothing, build_row_display(nothing))
        self._state.evict()

    def _call_on_rows(self, rows: pl.DataFrame) -> Iterator[Output]:
        batch = KeyBatch(rows, self._key, self._parts.call_context.clock_us)
        keys = batch.encoded_keys
        for column in self._state_columns.values():
            column.start_batch(batch, keys)
        self._frame_collector.start_batch(rows.height)
        self._parts.call_context.frame = rows
        hidden = {*HIDDEN_COLUMNS, *self._key}
        shown = rows.drop(name for name in rows.columns if name in hidden)
        try:
            found = self._parts.process.on_rows(shown, self._states, self._frame_collector.out)
            if found is not None:
                raise self._parts.errors.build_return_error(found, self.method)
        except BaseException as error:
            reraise_interrupt(error)
            raise self._parts.errors.build_batch_error(error, rows.height) from error
        finally:
            self._parts.call_context.frame = None
        for column in self._state_columns.values():
            column.finish_batch()
        for name, frame, of in self._frame_collector.frames:
            stream = self._streams[name]
            ordered = stream in self._parts.user_context.ordered_streams
            yield (
                stream,
                add_hidden_columns(frame, of, rows if ordered else rows.drop(ORDER, strict=False)),
            )
