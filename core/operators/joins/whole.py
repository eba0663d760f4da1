"""The output of complete windows or sessions, in which all rows that can match are present."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.core.elements import EVENT_TIME
from headrace.core.operators.joins.beside import MatchedPairs, drop_rows
from headrace.core.operators.joins.bounds import emits_unmatched
from headrace.core.operators.joins.pairs import JoinOutput
from headrace.core.operators.joins.probing import JoinProbe
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.operator import Output
from headrace.core.operators.place import KeyedContext
from headrace.core.plan import nodes
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl


class OutputSide(Protocol):
    """The rows of one side."""

    def project_output(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of rows, and the given expressions."""
        ...


class WindowJoinOutput:
    """The emitter of matching rows of a window: rows equal by `on`, including the window."""

    def __init__(
        self,
        operation: nodes.Join,
        place: KeyedContext,
        sides: Sequence[OutputSide],
        on: Sequence[str],
        bounds: tuple[pl.Expr, pl.Expr] | None,
    ) -> None:
        """`bounds`: the start and end of a row's window; None: it has no bounds."""
        self._type = operation.type
        self._sides, self._join_columns = sides, on
        self.unmatched_sides = [
            which for which in (LEFT, RIGHT) if emits_unmatched(operation.type, which)
        ]
        """The sides whose unmatched rows are emitted."""
        names = nodes.WINDOW_BOUNDS if bounds else ()
        self._pairs = JoinOutput(operation, place.stream, ordered=place.is_ordered, bounds=names)
        self._bound_columns = _build_bounds(*bounds) if bounds else []

    def emit_window(
        self, sides: tuple[pl.DataFrame, pl.DataFrame], new: pl.Expr | None = None
    ) -> Iterator[Output]:
        """Emit the join of these rows; `new` selects among the pairs."""
        asked = self._probe(LEFT, sides)
        if self._type == "semi":
            yield from self.emit_alone(LEFT, sides[LEFT][asked.find_matched()])
        elif self._type != "anti":
            for pairs in asked.iterate_rows():
                yield from self._pairs.emit(pairs if new is None else pairs.filter(new))
        for which in self.unmatched_sides:
            met = (asked if which == LEFT else self._probe(RIGHT, sides)).find_matched()
            yield from self.emit_alone(which, drop_rows(sides[which], met))

    def emit_alone(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit rows of a side alone."""
        return self._pairs.emit(self._project_output(which, rows))

    def _probe(self, which: int, sides: tuple[pl.DataFrame, pl.DataFrame]) -> MatchedPairs:
        own, other = sides[which], sides[1 - which]
        there = self._sides[1 - which].project_output(other)
        return MatchedPairs(
            self._pairs,
            JoinProbe(own, other, self._join_columns),
            self._project_output(which, own),
            there,
        )

    def _project_output(self, which: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._sides[which].project_output(rows, *self._bound_columns)


def _build_bounds(start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
    """Return the bounds as output columns, and the event time of their rows."""
    stamp = to_polars(TIMESTAMP)
    bounds = zip(nodes.WINDOW_BOUNDS, (start, end), strict=True)
    return [*(at.cast(stamp).alias(name) for name, at in bounds), (end - 1).alias(EVENT_TIME)]
