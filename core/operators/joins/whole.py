"""The output of complete windows or sessions, in which all rows that can match are present."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.core.elements import EVENT_TIME
from headrace.core.operators.joins.beside import Beside, without
from headrace.core.operators.joins.bounds import goes_alone
from headrace.core.operators.joins.pairs import Pairs
from headrace.core.operators.joins.probing import Probe
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.operator import Output
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl


class Shows(Protocol):
    """The rows of one side."""

    def shown(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of rows, and the given expressions."""
        ...


class Whole:
    """The emitter of matching rows of a window: rows equal by `on`, including the window."""

    def __init__(
        self,
        operation: nodes.Join,
        place: Place,
        sides: Sequence[Shows],
        on: Sequence[str],
        bounds: tuple[pl.Expr, pl.Expr] | None,
    ) -> None:
        """`bounds`: the start and end of a row's window; None: it has no bounds."""
        self._type = operation.type
        self._sides, self._join_columns = sides, on
        self.alone_of = [which for which in (LEFT, RIGHT) if goes_alone(operation.type, which)]
        """The sides whose unmatched rows are emitted."""
        names = nodes.BOUNDS if bounds else ()
        self._pairs = Pairs(operation, place.stream, ordered=place.ordered, bounds=names)
        self._bound_columns = _named(*bounds) if bounds else []

    def fired(
        self, sides: tuple[pl.DataFrame, pl.DataFrame], new: pl.Expr | None = None
    ) -> Iterator[Output]:
        """Emit the join of these rows; `new` selects among the pairs."""
        asked = self._asked(LEFT, sides)
        if self._type == "semi":
            yield from self.out(LEFT, sides[LEFT][asked.met()])
        elif self._type != "anti":
            for pairs in asked.rows():
                yield from self._pairs.rows(pairs if new is None else pairs.filter(new))
        for which in self.alone_of:
            met = (asked if which == LEFT else self._asked(RIGHT, sides)).met()
            yield from self.out(which, without(sides[which], met))

    def out(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit rows of a side alone."""
        return self._pairs.rows(self._shown(which, rows))

    def _asked(self, which: int, sides: tuple[pl.DataFrame, pl.DataFrame]) -> Beside:
        own, other = sides[which], sides[1 - which]
        there = self._sides[1 - which].shown(other)
        return Beside(
            self._pairs, Probe(own, other, self._join_columns), self._shown(which, own), there
        )

    def _shown(self, which: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._sides[which].shown(rows, *self._bound_columns)


def _named(start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
    """Return the bounds as output columns, and the event time of their rows."""
    stamp = to_polars(TIMESTAMP)
    bounds = zip(nodes.BOUNDS, (start, end), strict=True)
    return [*(at.cast(stamp).alias(name) for name, at in bounds), (end - 1).alias(EVENT_TIME)]
