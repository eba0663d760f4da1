"""The inputs of a user class, and batches of their rows.

A class has one input, or two whose rows share its state. Rows of both inputs are buffered for the
watermark, and handled in one order, each by the method of its side. Keys of both sides are equal if
their types and encodings are. The right input may be a broadcast: then its rows are rules, which
have no key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.process.row_buffer import BroadcastRowBuffer, RowBuffer, sort_rows
from headrace.core.operators.process.row_calls import (
    Call,
    RowBatch,
    build_row_display,
    get_event_times,
)
from headrace.core.operators.process.user_class import RowFactory
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

SIDE = "__side"


@dataclass(frozen=True, slots=True)
class UserInput:
    """An input of a user class, and the method that handles its rows."""

    grouping: GroupingKey
    schema: Schema
    row_factory: RowFactory
    call: Call
    find_cells: Callable[[pl.DataFrame], Iterable[Any]]
    """Returns the cell that the method gets with each row."""
    buffer: RowBuffer | BroadcastRowBuffer | None
    """The rows that wait for the watermark; None if they are handled on arrival."""
    late_to: str | None = None
    drops_late: bool = True
    """Whether late rows are dropped; late rules are handled with the next rows."""

    def project_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Project the key and the columns of the input."""
        return self.grouping.project_rows(frame, self.schema.names)


class SingleInputRows:
    """Rows of a class with one input."""

    def __init__(self, source: UserInput, rows: pl.DataFrame) -> None:
        self._input = source
        self.order = rows
        """The rows in their order, with their hidden columns."""

    def build_batch(self, piece: pl.DataFrame) -> RowBatch:
        """Build the batch of the next rows of `order`."""
        source = self._input
        return RowBatch(
            source.row_factory.create_rows(piece),
            list(source.find_cells(piece)),
            get_event_times(piece),
            build_row_display(piece),
            source.call,
        )


class MergedRows:
    """Rows of two inputs in one order."""

    def __init__(self, inputs: Sequence[UserInput], frames: Sequence[pl.DataFrame | None]) -> None:
        self._inputs = inputs
        self._frames = frames
        self._begins = [0, 0]
        self.order = _merge_order(frames)
        """The hidden columns of the rows in their order, and their sides."""

    def build_batch(self, piece: pl.DataFrame) -> RowBatch:
        """Build the batch of the next rows of `order`."""
        sides = piece[SIDE].to_list()
        parts: list[pl.DataFrame | None] = []
        rows, cells = [iter(()), iter(())], [iter(()), iter(())]
        for side, (source, frame) in enumerate(zip(self._inputs, self._frames, strict=True)):
            count, begin = sides.count(side), self._begins[side]
            part = None if frame is None else frame.slice(begin, count)
            self._begins[side] += count
            parts.append(part)
            if part is not None:
                rows[side] = iter(source.row_factory.create_rows(part))
                cells[side] = iter(source.find_cells(part))
        return RowBatch(
            map(lambda side: next(rows[side]), sides),
            [next(cells[side]) for side in sides],
            get_event_times(piece),
            _build_display(parts, sides),
            None,
            [self._inputs[side].call for side in sides],
        )


def _merge_order(pair: Sequence[pl.DataFrame | None]) -> pl.DataFrame:
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


def arrange_rows(
    inputs: Sequence[UserInput], frames: Sequence[pl.DataFrame | None]
) -> SingleInputRows | MergedRows:
    """Arrange rows of the inputs, at least one of which has some, in one order."""
    if len(inputs) > 1:
        return MergedRows(inputs, frames)
    assert frames[0] is not None
    return SingleInputRows(inputs[0], frames[0])
