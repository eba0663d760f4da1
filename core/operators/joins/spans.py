"""The rows of one side of a session join: of open sessions, and of emitted ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.frames import projected, together
from headrace.core.operators.joins.kept import STATES
from headrace.core.operators.joins.sides import Sided
from headrace.core.operators.place import Place
from headrace.core.operators.sessions.pieces import END, START
from headrace.core.plan import nodes
from headrace.core.state import NO_CLOCK_US, SLOT, Runs, RunsLayout
from headrace.core.types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

SHOWN = "shown_"
"""The prefix of the name of the state of emitted rows."""

WAS = ("__left_was", "__right_was")
"""The start of the session in which a row was emitted; null if it was not. Only with lateness."""


class Spans:
    """Stored rows with the columns of their side, including their time, and SLOT.

    An open row is stored under the time at which its session closes, as far as is known; an emitted
    row under the time until which rows may touch its session.
    """

    def __init__(
        self, operation: nodes.Join, which: int, place: Place, gap_us: int, lateness_us: int
    ) -> None:
        self.side = side = Sided(operation, which, ordered=place.ordered)
        self.key = side.key
        self._closes_us, self._over_us = gap_us + 1, gap_us + 1 + lateness_us
        self._emitted_columns = (WAS[which],) if lateness_us else ()
        types = {**side.types, **dict.fromkeys(self._emitted_columns, to_polars(BIGINT))}
        self._types = {**types, SLOT: to_polars(BIGINT)}
        layout = RunsLayout(types, side.key, lambda rows: rows)
        self.open = place.state.runs(STATES[which], layout)
        self._emitted: Runs | None = None
        if lateness_us:
            self._emitted = place.state.runs(SHOWN + STATES[which], layout)
        numbers = () if side.number is None else (side.number,)
        self._output_columns = (*side.columns, *numbers, *self._emitted_columns)

    @property
    def rows(self) -> int:
        """The number of stored rows."""
        return self.open.rows + (0 if self._emitted is None else self._emitted.rows)

    def owed(self, *, asking: bool) -> int:
        """Return the number of earlier rows that storing rows, or a lookup of keys, works on."""
        went = 0 if self._emitted is None else self._emitted.owed(asking=True)
        return went + self.open.owed(asking=asking)

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Convert input rows to stored rows."""
        import polars as pl

        none = [pl.lit(None, dtype=pl.Int64).alias(name) for name in self._emitted_columns]
        closes = (pl.col(self.side.time) + self._closes_us).alias(SLOT)
        return self.side.rows(frame).with_columns(*none, closes)

    def shown(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of rows, and the given expressions."""
        return projected(rows, *self._output_columns, *more)

    def due(self, until_us: int) -> pl.DataFrame:
        """Remove and return the open rows stored up to this time."""
        import polars as pl

        due = self.open.take(until_us)
        return pl.DataFrame(schema=self._types) if due is None else due.select(*self._types)

    def pieces(self, keys: pl.DataFrame, after_us: int = NO_CLOCK_US) -> pl.DataFrame:
        """Return the rows of these keys, open after this time or emitted, as fragments."""
        import polars as pl

        runs = (self.open,) if self._emitted is None else (self.open, self._emitted)
        found = [rows for each in runs if (rows := each.of_keys(keys, after_us)) is not None]
        return pieces_of(self, together(found) if found else pl.DataFrame(schema=self._types))

    def closed(self, rows: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """Return the rows of closed sessions, whose ends they have; store the others again."""
        import polars as pl

        closes = pl.col(END) + self._closes_us
        rows = rows.with_columns(closes.alias(SLOT))
        self.open.add(rows.filter(pl.col(SLOT) > until_us).select(*self._types))
        return rows.filter(pl.col(SLOT) <= until_us)

    def show(self, rows: pl.DataFrame, clock_us: int) -> None:
        """Store rows of emitted sessions as long as these may be touched."""
        import polars as pl

        if self._emitted is None:
            return
        was = [pl.col(START).alias(name) for name in self._emitted_columns]
        until = (pl.col(END) + self._over_us).alias(SLOT)
        went = rows.with_columns(*was, until).select(*self._types)
        self._emitted.add(went.filter(pl.col(SLOT) > clock_us))

    def taken(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the emitted rows of these keys, with the bounds of their sessions."""
        import polars as pl

        went = None if self._emitted is None else self._emitted.take_keys(keys)
        if went is None:
            return None
        end = (pl.col(SLOT) - self._over_us).alias(END)
        return went.with_columns(
            *[pl.col(name).alias(START) for name in self._emitted_columns], end
        )

    def open_again(self, rows: pl.DataFrame | None, touched: pl.DataFrame) -> None:
        """Reopen the rows of touched sessions; store the others as emitted again."""
        import polars as pl

        if rows is None or self._emitted is None:
            return
        by = [*self.key, START, END]
        names = [*self._types]
        self._emitted.add(rows.join(touched, on=by, how="anti", nulls_equal=True).select(names))
        again = rows.join(touched, on=by, how="semi", nulls_equal=True)
        self.open.add(again.with_columns((pl.col(END) + self._closes_us).alias(SLOT)).select(names))

    def drop(self, until_us: int) -> None:
        """Forget the emitted rows stored up to this time: no row can touch them."""
        if self._emitted is not None:
            self._emitted.drop(until_us)


def pieces_of(spans: Spans, rows: pl.DataFrame, *, all: bool = False) -> pl.DataFrame:
    """Return the rows as session fragments of one row each; with `all`, including other columns."""
    import polars as pl

    time = pl.col(spans.side.time)
    kept = rows.columns if all else spans.key
    return projected(rows, *kept, time.alias(START), time.alias(END))
