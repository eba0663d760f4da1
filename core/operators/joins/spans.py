"""The rows of one side of a session join: of open sessions, and of emitted ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.frames import concat_chunks, select_columns
from headrace.core.operators.joins.kept import SIDE_STATES
from headrace.core.operators.joins.sides import JoinSideColumns
from headrace.core.operators.place import KeyedContext
from headrace.core.operators.sessions.pieces import FRAGMENT_END, FRAGMENT_START
from headrace.core.plan import nodes
from headrace.core.state import NO_CLOCK_US, SLOT, RunsLayout, SortedRuns
from headrace.core.types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

EMITTED_PREFIX = "shown_"
"""The prefix of the name of the state of emitted rows."""

EMITTED_STARTS = ("__left_was", "__right_was")
"""The start of the session in which a row was emitted; null if it was not. Only with lateness."""


class SessionSideBuffer:
    """Stored rows with the columns of their side, including their time, and SLOT.

    An open row is stored under the time at which its session closes, as far as is known; an emitted
    row under the time until which rows may touch its session.
    """

    def __init__(
        self, operation: nodes.Join, which: int, place: KeyedContext, gap_us: int, lateness_us: int
    ) -> None:
        self.side = side = JoinSideColumns(operation, which, ordered=place.is_ordered)
        self.key = side.key
        self._closes_us, self._over_us = gap_us + 1, gap_us + 1 + lateness_us
        self._emitted_columns = (EMITTED_STARTS[which],) if lateness_us else ()
        types = {**side.types, **dict.fromkeys(self._emitted_columns, to_polars(BIGINT))}
        self._types = {**types, SLOT: to_polars(BIGINT)}
        layout = RunsLayout(types, side.key, lambda rows: rows)
        self.open_rows = place.state.open_runs(SIDE_STATES[which], layout)
        self._emitted: SortedRuns | None = None
        if lateness_us:
            self._emitted = place.state.open_runs(EMITTED_PREFIX + SIDE_STATES[which], layout)
        numbers = () if side.number is None else (side.number,)
        self._output_columns = (*side.columns, *numbers, *self._emitted_columns)

    @property
    def row_count(self) -> int:
        """The number of stored rows."""
        return self.open_rows.rows + (0 if self._emitted is None else self._emitted.rows)

    def count_deferred_rows(self, *, asking: bool) -> int:
        """Return the number of earlier rows that storing rows, or a lookup of keys, works on."""
        went = 0 if self._emitted is None else self._emitted.estimate_deferred_rows(asking=True)
        return went + self.open_rows.estimate_deferred_rows(asking=asking)

    def project_input(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Convert input rows to stored rows."""
        import polars as pl

        none = [pl.lit(None, dtype=pl.Int64).alias(name) for name in self._emitted_columns]
        closes = (pl.col(self.side.time) + self._closes_us).alias(SLOT)
        return self.side.project_input(frame).with_columns(*none, closes)

    def project_output(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of rows, and the given expressions."""
        return select_columns(rows, *self._output_columns, *more)

    def take_due(self, until_us: int) -> pl.DataFrame:
        """Remove and return the open rows stored up to this time."""
        import polars as pl

        due = self.open_rows.take(until_us)
        return pl.DataFrame(schema=self._types) if due is None else due.select(*self._types)

    def read_fragments(self, keys: pl.DataFrame, after_us: int = NO_CLOCK_US) -> pl.DataFrame:
        """Return the rows of these keys, open after this time or emitted, as fragments."""
        import polars as pl

        runs = (self.open_rows,) if self._emitted is None else (self.open_rows, self._emitted)
        found = [rows for each in runs if (rows := each.read_keys(keys, after_us)) is not None]
        return build_fragments(
            self, concat_chunks(found) if found else pl.DataFrame(schema=self._types)
        )

    def split_closed(self, rows: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """Return the rows of closed sessions, whose ends they have; store the others again."""
        import polars as pl

        closes = pl.col(FRAGMENT_END) + self._closes_us
        rows = rows.with_columns(closes.alias(SLOT))
        self.open_rows.add(rows.filter(pl.col(SLOT) > until_us).select(*self._types))
        return rows.filter(pl.col(SLOT) <= until_us)

    def store_emitted(self, rows: pl.DataFrame, clock_us: int) -> None:
        """Store rows of emitted sessions as long as these may be touched."""
        import polars as pl

        if self._emitted is None:
            return
        was = [pl.col(FRAGMENT_START).alias(name) for name in self._emitted_columns]
        until = (pl.col(FRAGMENT_END) + self._over_us).alias(SLOT)
        went = rows.with_columns(*was, until).select(*self._types)
        self._emitted.add(went.filter(pl.col(SLOT) > clock_us))

    def take_emitted(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the emitted rows of these keys, with the bounds of their sessions."""
        import polars as pl

        went = None if self._emitted is None else self._emitted.take_keys(keys)
        if went is None:
            return None
        end = (pl.col(SLOT) - self._over_us).alias(FRAGMENT_END)
        return went.with_columns(
            *[pl.col(name).alias(FRAGMENT_START) for name in self._emitted_columns], end
        )

    def reopen(self, rows: pl.DataFrame | None, touched: pl.DataFrame) -> None:
        """Reopen the rows of touched sessions; store the others as emitted again."""
        import polars as pl

        if rows is None or self._emitted is None:
            return
        by = [*self.key, FRAGMENT_START, FRAGMENT_END]
        names = [*self._types]
        self._emitted.add(rows.join(touched, on=by, how="anti", nulls_equal=True).select(names))
        again = rows.join(touched, on=by, how="semi", nulls_equal=True)
        self.open_rows.add(
            again.with_columns((pl.col(FRAGMENT_END) + self._closes_us).alias(SLOT)).select(names)
        )

    def drop(self, until_us: int) -> None:
        """Forget the emitted rows stored up to this time: no row can touch them."""
        if self._emitted is not None:
            self._emitted.drop(until_us)


def build_fragments(
    spans: SessionSideBuffer, rows: pl.DataFrame, *, all: bool = False
) -> pl.DataFrame:
    """Return the rows as session fragments of one row each; with `all`, including other columns."""
    import polars as pl

    time = pl.col(spans.side.time)
    kept = rows.columns if all else spans.key
    return select_columns(rows, *kept, time.alias(FRAGMENT_START), time.alias(FRAGMENT_END))
