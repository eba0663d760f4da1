"""The state of a step as rows for people.

Partial states are merged and turned into results by the folds of the step itself; a pane is shown
in each of its windows that may still be emitted. In addition to the columns of the key and of the
results there are those of the window (`window_start`, `window_end`), of the time to live (`until`),
of the newest event of a key (`event_time`), and of stored rows (`rank`, or `row` from 1). A name
that is taken gets an underscore.

Rows come in several frames: overlapping windows make many rows of few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.operators.counting import PANE
from headrace.core.operators.dedup import LAST
from headrace.core.operators.folds import AT, Aggregates, Fold
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.kept import KEPT, row_types
from headrace.core.operators.numbered import ROWS
from headrace.core.operators.running import SHOWN
from headrace.core.operators.sessions.pieces import END, START, joined
from headrace.core.operators.top import BEST
from headrace.core.operators.windows.make import fold_of
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.nodes import BOUNDS
from headrace.core.plan.windows import Count, Global, Session
from headrace.core.readable import now
from headrace.core.readable.classes import ClassStates
from headrace.core.readable.columns import free, in_place, listed, named
from headrace.core.readable.keys import decoded
from headrace.core.readable.meaning import Meaning
from headrace.core.readable.panes import Panes
from headrace.core.readable.users import with_partials
from headrace.core.state import KEY, NO_CLOCK_US, SLOT, UNTIL
from headrace.core.types import BIGINT, TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

BESIDE = (
    *((EVENT_TIME, "event_time"), (LAST, "event_time"), (SHOWN, "put_out"), (UNTIL, "until")),
    (ROWS, "rows"),
)
"""The columns that are stored of a key in addition to its results, with their display names."""


class States:
    """The reader of a step's states. Its frames are those of a frozen state, all of one clock."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._operation = meaning.operation
        self._grouping = Grouping(meaning.operation.key)
        self._inside = self._grouping.inside
        self._key = meaning.key
        window = meaning.window
        by_time = window is not None and not isinstance(window.shape, Session | Count)
        self._panes = Panes(window) if window is not None and by_time else None

    def read(
        self, name: str, frames: Sequence[pl.DataFrame], clock_us: int
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a state, those of a key and window in one frame. At least one frame."""
        if isinstance(self._operation, nodes.Process):
            yield ClassStates(self._operation, self._key).read(name, frames)
            return
        whole = self._nothing(name)
        if frames:
            whole = with_partials(_whole(frames), self._operation)
        match name:
            case "keys":
                yield self._of_table(whole)
            case "rows":
                yield now.of_rows(self._meaning, self._inside, whole)
            case "waiting":
                yield self._of_waiting(whole)
            case "counts":
                yield named(self._with_key(whole), BESIDE)
            case "panes":
                yield self._of_count_windows(whole)
            case "changed":
                yield self._changed(whole)
            case "windows":
                yield from self._of_windows(whole, clock_us)
            case _:
                yield self._of_sessions(whole)

    def identity(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row."""
        if isinstance(self._operation, nodes.Process):
            return ClassStates(self._operation, self._key).identity(name)
        columns = next(self.read(name, [], NO_CLOCK_US)).columns
        bounds = len(BOUNDS) if self._is_bounded else 0
        key, rows = len(self._key.names), 1 if self._keeps_rows else 0
        match name:
            case "keys" | "counts":
                return tuple(columns[: key + (rows if name == "keys" else 0)])
            case "rows":
                return tuple(columns[: key + 1])
            case "changed" | "waiting":
                return tuple(columns)
            case "panes" | "open" | "shown":  # without the rows of a pane or the end of a session
                return (*columns[: key + 1], *columns[key + 2 : key + 2 + rows])
        return tuple(columns[: key + bounds + rows])

    @property
    def _keeps_rows(self) -> bool:
        """Whether rows are stored, rather than aggregates."""
        window = self._meaning.window
        keeps_rows = isinstance(self._operation, nodes.Apply | nodes.Top)
        return keeps_rows or bool(window and window.evict)

    def _of_table(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return running aggregates, the top rows of each key, or the keys seen by a dedup."""
        if self._meaning.changes:
            return self._shown(now.of_keys(self._meaning, self._with_key(table)))
        beside = [name for name in (LAST, SHOWN, UNTIL) if name in table.columns]
        if isinstance(self._operation, nodes.Aggregate):
            by = (KEY, *self._inside, *beside)
            key = decoded(table[KEY], self._key.columns)
            named_inside = (k.alias(name) for k, name in zip(key, self._inside, strict=True))
            done = self._fold(table).finish(table.hstack([*named_inside]), by)
            return self._shown(done.drop(KEY))
        whole = self._with_key(table)
        if isinstance(self._operation, nodes.Top):
            whole = listed(whole, BEST, self._key, self._key.names, "rank")
        return self._shown(whole)

    def _of_waiting(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return waiting rows as they came, in the order of their event times."""
        import polars as pl

        ordered = rows.sort(pl.col(ORDER)).drop(ORDER, SLOT)
        return named(now.keyed(self._meaning, self._inside, ordered), BESIDE)

    def _of_windows(self, panes: pl.DataFrame, clock_us: int) -> Iterator[pl.DataFrame]:
        assert self._panes is not None, "it is a state of windows of time"
        for part in self._panes.windows(panes, self._inside, clock_us):
            merged = self._fold(part).merge(part, (*self._inside, SLOT))
            yield self._sorted(self._finished(merged.with_columns(self._panes.bounds()), BOUNDS))

    def _of_sessions(self, pieces: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        window = self._meaning.window
        assert window is not None and isinstance(window.shape, Session)
        gap_us, time = window.shape.gap_us, to_polars(TIMESTAMP)
        whole = joined(pieces, self._inside, gap_us)
        merged = self._fold(whole).merge(whole, (*self._inside, START, END))
        start, end = pl.col(START).cast(time), (pl.col(END) + gap_us).cast(time)
        bounded = merged.with_columns(start.alias(BOUNDS[0]), end.alias(BOUNDS[1]))
        return self._sorted(self._finished(bounded, BOUNDS))

    def _of_count_windows(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the count windows: each is one row, so nothing has to be merged."""
        rows = self._finished(table.drop(KEY), (PANE, ROWS))
        pane = free("pane", rows.columns)
        return self._sorted(rows.rename({PANE: pane, ROWS: free("rows", rows.columns)}), pane)

    def _changed(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the windows, or panes of windows, that have changed since they were emitted."""
        import polars as pl

        assert self._panes is not None, "it is a state of windows of time"
        shown = panes.unique()
        if self._is_bounded and self._panes.one_to_one:
            shown = shown.with_columns(self._panes.bounds())
        elif not self._is_bounded:
            shown = shown.with_columns(pl.lit(True).alias("changed"))
        else:
            shown = shown.with_columns(pl.col(SLOT).cast(to_polars(TIMESTAMP)).alias("pane_end"))
        return self._sorted(self._grouping.named(shown.drop(SLOT)))

    def _with_key(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a table with the columns of their key in front."""
        key = decoded(table[KEY], self._key.columns)
        rest = [name for name in table.columns if name != KEY]
        return table.hstack(key).select(*self._key.names, *rest)

    def _finished(self, states: pl.DataFrame, beside: Sequence[str]) -> pl.DataFrame:
        """Return the results of states, or the rows that they contain, after the key."""
        beside = [name for name in beside if name in states.columns]
        before = [*self._key.names, *beside]
        if KEPT not in states.columns:
            return self._fold(states).finish(states, (*self._inside, *beside))
        states = self._grouping.named(states)
        states = states.select(*before, KEPT, *(n for n in (EVENT_TIME,) if n in states.columns))
        if not isinstance(self._operation, nodes.Top):
            return listed(in_place(states, KEPT), KEPT, self._key, before, "row")
        return listed(states, KEPT, self._key, before, "rank")

    def _sorted(self, rows: pl.DataFrame, *last: str) -> pl.DataFrame:
        """Return the rows sorted for display: those of earlier windows come first."""
        bounds = [name for name in BOUNDS if name in rows.columns and self._is_bounded]
        by = [*bounds, *self._key.names, *last]
        return self._shown(rows.sort(by, maintain_order=True) if by else rows)

    @property
    def _is_bounded(self) -> bool:
        return self._meaning.window is not None and self._meaning.window.bounded

    def _shown(self, rows: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if not self._meaning.timed:
            rows = rows.drop(EVENT_TIME, LAST, strict=False)
        if UNTIL in rows.columns:
            rows = rows.with_columns(pl.col(UNTIL).cast(to_polars(TIMESTAMP)))
        return named(rows, BESIDE)

    def _fold(self, states: pl.DataFrame | None) -> Fold:
        """Return the fold that computes results of these states; None: of an empty state."""
        assert isinstance(self._operation, nodes.Windowed), "it makes results"
        window = self._meaning.window
        if window is None:
            assert isinstance(self._operation, nodes.Aggregate), "its rows are all there is"
            return Aggregates(self._operation, self._grouping, newest=True)
        kept = states is not None and KEPT in states.columns
        types = row_types(states.schema) if states is not None and kept else self._row()
        newest = isinstance(window.shape, Global)
        return fold_of(self._operation, self._grouping, types, newest=newest)

    def _nothing(self, name: str) -> pl.DataFrame:
        """Return an empty state with the operator's schema."""
        import polars as pl

        number, key = pl.Int64(), self._grouping.types
        match name:
            case "keys":
                columns = {KEY: pl.String(), **self._of_key()}
            case "counts":
                columns = {KEY: pl.String(), ROWS: number}
            case "panes":
                panes = {PANE: number, ROWS: number}
                columns = {KEY: pl.String(), **key, **panes, **self._fold(None).columns}
            case "changed":
                columns = {**key, SLOT: number}
            case "rows":
                columns = now.rows_columns(key, self._row())
                del columns[AT]
            case "waiting":
                time = {EVENT_TIME: to_polars(TIMESTAMP), SLOT: number}
                columns = {**key, **self._row(), **time}
                del columns[AT]
            case "windows":
                columns = {**key, SLOT: number, **self._fold(None).columns}
            case _:
                pieces = {START: number, END: number, SLOT: number}
                columns = {**key, **pieces, **self._fold(None).columns}
        return pl.DataFrame(schema=columns)

    def _of_key(self) -> dict[str, pl.DataType]:
        """Return the columns that a running step stores of a key."""
        import polars as pl

        if self._meaning.changes:
            rows = self._row()
            del rows[AT]
            return now.keys_columns(self._meaning, rows)
        until = {UNTIL: pl.Int64()} if self._meaning.ttl else {}
        match self._operation:
            case nodes.Aggregate():
                shown = {SHOWN: pl.Boolean()} if self._meaning.having else {}
                return {**self._fold(None).columns, **shown, **until}
            case nodes.Top():
                best = {BEST: pl.List(pl.Struct(self._row()))}
                return {**best, LAST: to_polars(TIMESTAMP), **until}
        return {LAST: to_polars(TIMESTAMP), **until} if self._meaning.ttl else {}

    def _row(self) -> dict[str, pl.DataType]:
        """Return the columns of stored rows."""
        columns = {field.name: to_polars(field.type) for field in self._meaning.of}
        return {**columns, ORDER: to_polars(ORDER_TYPE), AT: to_polars(BIGINT)}


def _whole(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    alike = all(frame.columns == frames[0].columns for frame in frames)
    return pl.concat(frames, how="vertical" if alike else "diagonal")
