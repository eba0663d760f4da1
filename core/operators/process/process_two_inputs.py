"""The operator of `process` after `connect`: rows of two inputs, with common state.

Rows of both inputs are buffered for the watermark, and handled in one order, each by the method of
its side. Keys of both sides are equal if their types and encodings are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output
from headrace.core.operators.process.process_operator import ProcessOperator, UserCodeContext
from headrace.core.operators.process.row_buffer import BroadcastRowBuffer, RowBuffer, sort_rows
from headrace.core.operators.process.row_calls import (
    CHUNK_ROWS,
    Call,
    RowBatch,
    build_row_display,
    get_event_times,
)
from headrace.core.operators.process.timers import TimerHeap
from headrace.core.operators.process.user_class import RowFactory, validate_class
from headrace.core.plan import nodes
from headrace.core.plan.states import HELD_RIGHT_ROWS
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.elements import EVENT_TIME, ORDER

if TYPE_CHECKING:
    import polars as pl

SIDE = "__side"


class TwoInputProcessOperator(ProcessOperator):
    """The operator of a class with two inputs; `process` takes the rows of the left one."""

    method = "on_left"
    method_right = "on_right"

    def __init__(
        self,
        join: nodes.Join,
        body: nodes.ProcessBody,
        place: KeyedContext,
        around: UserCodeContext,
    ) -> None:
        sides = [_build_schema(side) for side in (join.left, join.right)]
        left = nodes.Process(join.left.key, sides[0], join.has_event_time, body, join.late_to[0])
        super().__init__(left, place, around)
        code = around.code
        validate_class(code.load(), code.display_name, (self.method_right,), dict(body.states))
        call = getattr(self._process, self.method_right)
        self._side_methods = (getattr(self._process, self.method), self._adapt_right_call(call))
        self._right_key = GroupingKey(join.right.key)
        self._right_schema = sides[1]
        self._right_late_to = join.late_to[1]
        self._row_factories = (
            self._row_factory,
            RowFactory.from_method(call, sides[1], code.display_name),
        )
        self._right_buffer = self._build_right_buffer() if body.uses_event_time else None

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rows of the right input."""
        if not frame.height:
            return
        with attribute_errors_to(self._user_context.step):
            if self._right_buffer is None:
                yield from self._handle_rows((None, self._project_right(frame)), None)
                self._evict_if_full()
                return
            frame = yield from self._context.drop_late_rows(frame, self._right_late_to)
            if frame.height:
                self._right_buffer.add(self._project_right(frame))

    def flush_to_state(self) -> None:
        """Write buffered rows, states and timers to the state."""
        if self._right_buffer is not None:
            self._right_buffer.flush_to_state()
        super().flush_to_state()

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows and of timers."""
        return super().pending_rows + (0 if self._right_buffer is None else len(self._right_buffer))

    def _adapt_right_call(self, call: Any) -> Call:
        """Return the method that handles a row of the right input."""
        made: Call = call
        return made

    def _build_right_buffer(self) -> RowBuffer | BroadcastRowBuffer:
        return self._build_buffer(HELD_RIGHT_ROWS, self._right_schema)

    def _project_right(self, frame: pl.DataFrame) -> pl.DataFrame:
        return self._right_key.project_rows(frame, self._right_schema.names)

    def _release_rows(self, before_us: int) -> Any:
        if self._buffer is None or self._right_buffer is None:
            return None
        found = self._buffer.release(before_us), self._right_buffer.release(before_us)
        return None if all(rows is None for rows in found) else found

    def _handle_rows(
        self, frame: Any, timers: TimerHeap | None, before_us: int = 0
    ) -> Iterator[Output]:
        """Handle rows, either a frame of the left input or one of each, and emit the output."""
        pair = frame if isinstance(frame, tuple) else (frame, None)
        order, begins = _merge_order(pair), [0, 0]
        for start in range(0, order.height, CHUNK_ROWS):
            self._make_room(start, timers, before_us)
            piece = order.slice(start, CHUNK_ROWS)
            sides = piece[SIDE].to_list()
            parts: list[pl.DataFrame | None] = []
            for side, rows in enumerate(pair):
                count = sides.count(side)
                parts.append(None if rows is None else rows.slice(begins[side], count))
                begins[side] += count
            came = self._merge_sides(parts, sides, piece)
            self._caller.handle(came, timers)
            yield from self._emit_collected(piece.drop(SIDE), came.describe_row)

    def _find_side_cells(self, side: int, rows: pl.DataFrame) -> Iterable[Any]:
        """Return the cell of each row of a side."""
        return self._find_cells(rows)

    def _merge_sides(
        self, parts: list[pl.DataFrame | None], sides: list[int], piece: pl.DataFrame
    ) -> RowBatch:
        """Combine the rows of both sides in one order."""
        rows, cells = [iter(()), iter(())], [iter(()), iter(())]
        for side, part in enumerate(parts):
            if part is not None:
                rows[side] = iter(self._row_factories[side].create_rows(part))
                cells[side] = iter(self._find_side_cells(side, part))
        return RowBatch(
            map(lambda side: next(rows[side]), sides),
            [next(cells[side]) for side in sides],
            get_event_times(piece),
            _build_display(parts, sides),
            None,
            [self._side_methods[side] for side in sides],
        )


def _build_schema(side: nodes.JoinSide) -> Schema:
    return Schema(tuple(Field(c.name, c.value.type, c.value.nullable) for c in side.columns))


def _merge_order(pair: tuple[pl.DataFrame | None, pl.DataFrame | None]) -> pl.DataFrame:
    """Return the hidden columns of the rows of both sides in one order, with their side."""
    import polars as pl

    hidden = []
    for side, rows in enumerate(pair):
        if rows is not None:
            names = [name for name in (EVENT_TIME, ORDER) if name in rows.columns]
            of = pl.repeat(side, rows.height, dtype=pl.Int8, eager=True).alias(SIDE)
            hidden.append(pl.DataFrame([*rows.select(names).get_columns(), of]))
    return hidden[0] if len(hidden) == 1 else sort_rows(pl.concat(hidden))


def _build_display(
    parts: list[pl.DataFrame | None], sides: list[int]
) -> Callable[[int], dict[str, Any]]:
    """Return a function that gives a row, by its number among both sides, as messages show it."""

    def describe(at: int) -> dict[str, Any]:
        part = parts[sides[at]]
        assert part is not None
        return build_row_display(part)(sides[:at].count(sides[at]))

    return describe
