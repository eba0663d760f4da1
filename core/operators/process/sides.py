"""The operator of `process` after `connect`: rows of two inputs, with common state.

Rows of both inputs are buffered for the watermark, and handled in one order, each by the method of
its side. Keys of both sides are equal if their types and encodings are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.core.blame import blamed
from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Output
from headrace.core.operators.place import Place
from headrace.core.operators.process.around import Around
from headrace.core.operators.process.held import Held, HeldByAll, in_order
from headrace.core.operators.process.loaded import Rows, check
from headrace.core.operators.process.processing import Processing
from headrace.core.operators.process.rows import PIECE, Call, Came, shown_in, times_of
from headrace.core.operators.process.timers import Timers
from headrace.core.plan import nodes
from headrace.core.plan.states import HELD_RIGHT
from headrace.core.types import Field, Schema

if TYPE_CHECKING:
    import polars as pl

SIDE = "__side"


class ProcessingTwo(Processing):
    """The operator of a class with two inputs; `process` takes the rows of the left one."""

    method = "on_left"
    method_right = "on_right"

    def __init__(self, join: nodes.Join, body: nodes.Body, place: Place, around: Around) -> None:
        sides = [_schema(side) for side in (join.left, join.right)]
        left = nodes.Process(join.left.key, sides[0], join.timed, body, join.late_to[0])
        super().__init__(left, place, around)
        code = around.code
        check(code.load(), code.shown, (self.method_right,), dict(body.states))
        call = getattr(self._process, self.method_right)
        self._side_methods = (getattr(self._process, self.method), self._calling(call))
        self._right_key = Grouping(join.right.key)
        self._right_schema = sides[1]
        self._right_late_to = join.late_to[1]
        self._row_factories = (self._row_factory, Rows.of(call, sides[1], code.shown))
        self._right_buffer = self._holding_right() if body.in_time else None

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rows of the right input."""
        if not frame.height:
            return
        with blamed(self._user_context.step):
            if self._right_buffer is None:
                yield from self._handled((None, self._keyed_right(frame)), None)
                self._let_go()
                return
            frame = yield from self._context.in_time(frame, self._right_late_to)
            if frame.height:
                self._right_buffer.hold(self._keyed_right(frame))

    def settle(self) -> None:
        """Write buffered rows, states and timers to the state."""
        if self._right_buffer is not None:
            self._right_buffer.file()
        super().settle()

    @property
    def held(self) -> int:
        """The number of buffered rows and of timers."""
        return super().held + (0 if self._right_buffer is None else len(self._right_buffer))

    def _calling(self, call: Any) -> Call:
        """Return the method that handles a row of the right input."""
        made: Call = call
        return made

    def _holding_right(self) -> Held | HeldByAll:
        return self._holding(HELD_RIGHT, self._right_schema)

    def _keyed_right(self, frame: pl.DataFrame) -> pl.DataFrame:
        return self._right_key.rows(frame, self._right_schema.names)

    def _released(self, before_us: int) -> Any:
        if self._buffer is None or self._right_buffer is None:
            return None
        found = self._buffer.released(before_us), self._right_buffer.released(before_us)
        return None if all(rows is None for rows in found) else found

    def _handled(self, frame: Any, timers: Timers | None, before_us: int = 0) -> Iterator[Output]:
        """Handle rows, either a frame of the left input or one of each, and emit the output."""
        pair = frame if isinstance(frame, tuple) else (frame, None)
        order, begins = _together(pair), [0, 0]
        for start in range(0, order.height, PIECE):
            self._make_room(start, timers, before_us)
            piece = order.slice(start, PIECE)
            sides = piece[SIDE].to_list()
            parts: list[pl.DataFrame | None] = []
            for side, rows in enumerate(pair):
                count = sides.count(side)
                parts.append(None if rows is None else rows.slice(begins[side], count))
                begins[side] += count
            came = self._came(parts, sides, piece)
            self._caller.handle(came, timers)
            yield from self._gathered(piece.drop(SIDE), came.shown)

    def _cells_on(self, side: int, rows: pl.DataFrame) -> Iterable[Any]:
        """Return the cell of each row of a side."""
        return self._cells_of(rows)

    def _came(
        self, parts: list[pl.DataFrame | None], sides: list[int], piece: pl.DataFrame
    ) -> Came:
        """Combine the rows of both sides in one order."""
        rows, cells = [iter(()), iter(())], [iter(()), iter(())]
        for side, part in enumerate(parts):
            if part is not None:
                rows[side] = iter(self._row_factories[side].made(part))
                cells[side] = iter(self._cells_on(side, part))
        return Came(
            map(lambda side: next(rows[side]), sides),
            [next(cells[side]) for side in sides],
            times_of(piece),
            _shown(parts, sides),
            None,
            [self._side_methods[side] for side in sides],
        )


def _schema(side: nodes.Side) -> Schema:
    return Schema(tuple(Field(c.name, c.value.type, c.value.nullable) for c in side.columns))


def _together(pair: tuple[pl.DataFrame | None, pl.DataFrame | None]) -> pl.DataFrame:
    """Return the hidden columns of the rows of both sides in one order, with their side."""
    import polars as pl

    hidden = []
    for side, rows in enumerate(pair):
        if rows is not None:
            names = [name for name in (EVENT_TIME, ORDER) if name in rows.columns]
            of = pl.repeat(side, rows.height, dtype=pl.Int8, eager=True).alias(SIDE)
            hidden.append(pl.DataFrame([*rows.select(names).get_columns(), of]))
    return hidden[0] if len(hidden) == 1 else in_order(pl.concat(hidden))


def _shown(parts: list[pl.DataFrame | None], sides: list[int]) -> Callable[[int], dict[str, Any]]:
    """Return a function that gives a row, by its number among both sides, as messages show it."""

    def describe(at: int) -> dict[str, Any]:
        part = parts[sides[at]]
        assert part is not None
        return shown_in(part)(sides[:at].count(sides[at]))

    return describe
