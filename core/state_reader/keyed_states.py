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

from headrace.core.aggregates.over_calls import list_carried_calls
from headrace.core.api.state import EXPIRY, KEY, NO_CLOCK_US, SLOT
from headrace.core.operators.changelog.change_rows import LAST_NUMBER
from headrace.core.operators.changelog.newest_changes import (
    IS_DELETED,
    PLACE,
    get_change_types,
)
from headrace.core.operators.count_windows import PANE_NUMBER
from headrace.core.operators.dedup import NEWEST_TIME
from headrace.core.operators.folds import (
    KEPT_ROWS,
    ROW_COUNT,
    ROW_TIME,
    WEIGHTED_ROWS,
    AggregateFold,
    Fold,
    WeightedFold,
    get_row_types,
)
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.matches.match_state import list_match_columns
from headrace.core.operators.over_state import (
    EARLIER_ROWS,
    LAST_ROWS,
    WAITING_ROWS,
    list_table_columns,
)
from headrace.core.operators.running_results import BEST_ROWS, IS_EMITTED
from headrace.core.operators.sessions.fragments import FRAGMENT_END, FRAGMENT_START, merge_fragments
from headrace.core.operators.windows.factory import build_fold
from headrace.core.plan import nodes, states
from headrace.core.plan.nodes import WINDOW_BOUNDS
from headrace.core.plan.nodes.windows import Count, Global, Session
from headrace.core.plan.rule_matches import RULE_COLUMN
from headrace.core.state_reader import changelog_state
from headrace.core.state_reader.columns import (
    explode_stored_rows,
    make_unique_name,
    move_to_end,
    sort_stored_rows,
)
from headrace.core.state_reader.keys import decode_keys
from headrace.core.state_reader.match_states import read_runs
from headrace.core.state_reader.panes import PaneReader
from headrace.core.state_reader.process_states import ProcessStateReader
from headrace.core.state_reader.rule_states import RuleStateReader
from headrace.core.state_reader.state_schema import StateSchema
from headrace.core.state_reader.user_aggregates import collect_partials
from headrace.core.types.data_types import BIGINT, TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER, SEQUENCE
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl

METADATA_COLUMNS = (
    *(
        (EVENT_TIME, "event_time"),
        (NEWEST_TIME, "event_time"),
        (IS_EMITTED, "emitted"),
        (SEQUENCE, "sequence"),
        (IS_DELETED, "deleted"),
        (EXPIRY, "until"),
    ),
    (ROW_COUNT, "rows"),
)
"""The columns that are stored of a key in addition to its results, with their display names."""


class KeyedStateReader:
    """The reader of a step's states. Its frames are those of a frozen state, all of one clock."""

    def __init__(self, meaning: StateSchema) -> None:
        self._meaning = meaning
        self._operation = meaning.operation
        self._grouping = GroupingKey(meaning.operation.key)
        self._inside = self._grouping.internal_names
        self._key = meaning.key
        window = meaning.window
        by_time = window is not None and not isinstance(window.shape, Session | Count)
        self._panes = PaneReader(window) if window is not None and by_time else None

    def read(
        self, name: str, frames: Sequence[pl.DataFrame], clock_us: int
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a state, those of a key and window in one frame. At least one frame."""
        if isinstance(self._operation, nodes.Process):
            yield ProcessStateReader(self._operation, self._key).read(name, frames)
            return
        if isinstance(self._operation, nodes.Match) and self._operation.stores_rows:
            yield RuleStateReader(self._meaning, self._operation).read(name, frames)
            return
        whole = self._build_empty_state(name)
        if frames:
            whole = collect_partials(_concat_frames(frames), self._operation)
        if name in self._meaning.value_columns:
            yield changelog_state.read_counted_values(self._meaning, self._inside, whole)
            return
        match name:
            case "keys":
                yield self._read_table(whole)
            case "rows" | "ranking":
                rows = changelog_state.read_current_rows(self._meaning, self._inside, whole)
                yield move_to_end(rows, METADATA_COLUMNS)
            case "sequence":
                yield whole
            case states.LOOP_STATE:
                yield self._format_rows(whole)
            case "waiting":
                yield self._read_waiting_rows(whole)
            case "counts":
                yield move_to_end(self._add_key_columns(whole), METADATA_COLUMNS)
            case "panes":
                yield self._read_count_windows(whole)
            case "changed":
                yield self._read_changed_windows(whole)
            case "windows":
                yield from self._read_windows(whole, clock_us)
            case "due" | "waits":
                yield self._read_timers(whole)
            case states.NEWEST_STATE:
                rows = whole.sort(SLOT)
                last = rows.unique(self._inside, keep="last") if self._inside else rows.tail(1)
                yield self._read_timers(last)
            case "fired":
                yield self._sort_rows(self._grouping.restore_names(self._name_sessions(whole)))
            case _:
                yield self._read_sessions(whole)

    def list_identity_columns(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row."""
        if isinstance(self._operation, nodes.Process):
            return ProcessStateReader(self._operation, self._key).list_identity_columns(name)
        columns = next(self.read(name, [], NO_CLOCK_US)).columns
        bounds = len(WINDOW_BOUNDS) if self._is_bounded else 0
        if isinstance(self._operation, nodes.Top) and self._operation.has_ties:
            return ()  # several rows have the same rank
        if isinstance(self._operation, nodes.Match) and name == "keys":
            return ()  # a key may have several runs from the same time
        if isinstance(self._operation, nodes.Match) and self._operation.stores_rows:
            return (RULE_COLUMN,) if name == states.RULES_STATE else tuple(columns)
        if name == states.LOOP_STATE:
            return ()  # equal rows may go round
        key, rows = len(self._key.names), 1 if self._stores_rows else 0
        if name in self._meaning.value_columns:
            return tuple(columns[:-1])
        match name:
            case "keys" | "counts" | states.NEWEST_STATE:
                return tuple(columns[: key + (rows if name == "keys" else 0)])
            case "rows" | "ranking":
                return tuple(columns[: key + 1])
            case "changed" | "waiting" | "fired" | "due" | "waits" | "sequence":
                return tuple(columns)
            case "panes" | "open" | "shown":  # without the rows of a pane or the end of a session
                return (*columns[: key + 1], *columns[key + 2 : key + 2 + rows])
        return tuple(columns[: key + bounds + rows])

    @property
    def _stores_changes(self) -> bool:
        """Whether the step stores the current rows of a changelog."""
        is_conversion = isinstance(self._operation, nodes.ChangelogConversion)
        return self._meaning.is_changelog or is_conversion

    @property
    def _stores_rows(self) -> bool:
        """Whether rows are stored, rather than aggregates."""
        window = self._meaning.window
        keeps_rows = isinstance(self._operation, nodes.Apply | nodes.Top)
        return keeps_rows or bool(window and window.evict)

    def _read_table(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return running aggregates, the top rows of each key, or the keys seen by a dedup."""
        if self._stores_changes:
            return self._format_rows(
                changelog_state.read_groups(self._meaning, self._add_key_columns(table))
            )
        if isinstance(self._operation, nodes.Over):
            return self._format_rows(self._read_ordered_keys(self._operation, table))
        if isinstance(self._operation, nodes.Match):
            return read_runs(self._operation.pattern, self._add_key_columns(table), self._key.names)
        times = [name for name in (NEWEST_TIME, IS_EMITTED, EXPIRY) if name in table.columns]
        if isinstance(self._operation, nodes.Aggregate):
            by = (KEY, *self._inside, *times)
            key = decode_keys(table[KEY], self._key.columns)
            named_inside = (k.alias(name) for k, name in zip(key, self._inside, strict=True))
            done = self._build_fold(table).finish(table.hstack([*named_inside]), by)
            return self._format_rows(done.drop(KEY))
        whole = self._add_key_columns(table).drop(PLACE, strict=False)
        if isinstance(self._operation, nodes.Top):
            whole = explode_stored_rows(whole, BEST_ROWS, self._key, self._key.names, "rank")
        return self._format_rows(whole)

    def _read_ordered_keys(self, over: nodes.Over, table: pl.DataFrame) -> pl.DataFrame:
        """Return what is carried from row to row, and the numbers of rows, of each key."""
        import polars as pl

        whole = self._add_key_columns(table)
        taken = [*self._key.names]
        columns = []

        def add(name: str, value: pl.Expr) -> None:
            taken.append(make_unique_name(name, taken))
            columns.append(value.alias(taken[-1]))

        for call in list_carried_calls(column.expression for column in over.columns):
            add(call.name.removeprefix("__"), call.finish())
        counts = {
            "earlier_rows": pl.col(EARLIER_ROWS),
            "stored_rows": pl.col(LAST_ROWS).list.len().cast(pl.Int64),
            "waiting_rows": pl.col(WAITING_ROWS),
        }
        for name, value in counts.items():
            if value.meta.root_names()[0] in whole.columns:
                add(name, value)
        times = [name for name in (NEWEST_TIME, EXPIRY) if name in whole.columns]
        return whole.select(*self._key.names, *columns, *times)

    def _read_waiting_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return waiting rows as they came, in the order of their event times."""
        import polars as pl

        if isinstance(self._operation, nodes.Over):  # without computed arguments
            names = {*self._inside, *self._meaning.stored_columns.names, EVENT_TIME, ORDER, SLOT}
            rows = rows.select(name for name in rows.columns if name in names)
        ordered = rows.sort(pl.col(ORDER)).drop(ORDER, SLOT)
        return move_to_end(
            changelog_state.add_key_columns(self._meaning, self._inside, ordered), METADATA_COLUMNS
        )

    def _read_windows(self, panes: pl.DataFrame, clock_us: int) -> Iterator[pl.DataFrame]:
        assert self._panes is not None, "it is a state of windows of time"
        for part in self._panes.expand_windows(panes, self._inside, clock_us):
            merged = self._build_fold(part).merge(part, (*self._inside, SLOT))
            yield self._sort_rows(
                self._finish_states(merged.with_columns(self._panes.build_bounds()), WINDOW_BOUNDS)
            )

    def _read_sessions(self, pieces: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        pieces = pieces.filter(pl.col(FRAGMENT_END) >= pl.col(FRAGMENT_START))  # without marks
        whole = merge_fragments(pieces, self._inside, self._gap_us)
        bounds = (FRAGMENT_START, FRAGMENT_END)
        merged = self._build_fold(whole).merge(whole, (*self._inside, *bounds))
        states = merged.hstack(self._name_sessions(merged)[list(WINDOW_BOUNDS)])
        return self._sort_rows(self._finish_states(states, WINDOW_BOUNDS))

    def _name_sessions(self, sessions: pl.DataFrame) -> pl.DataFrame:
        """Return the key and the bounds of sessions."""
        import polars as pl

        time, gap_us = to_polars(TIMESTAMP), self._gap_us
        start, end = pl.col(FRAGMENT_START).cast(time), (pl.col(FRAGMENT_END) + gap_us).cast(time)
        bounds = (start.alias(WINDOW_BOUNDS[0]), end.alias(WINDOW_BOUNDS[1]))
        return sessions.select(*self._inside, *bounds)

    @property
    def _gap_us(self) -> int:
        window = self._meaning.window
        assert window is not None and isinstance(window.shape, Session)
        return window.shape.gap_us

    def _read_count_windows(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the count windows: each is one row, so nothing has to be merged."""
        rows = self._finish_states(table.drop(KEY), (PANE_NUMBER, ROW_COUNT))
        pane = make_unique_name("pane", rows.columns)
        return self._sort_rows(
            rows.rename({PANE_NUMBER: pane, ROW_COUNT: make_unique_name("rows", rows.columns)}),
            pane,
        )

    def _read_changed_windows(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the windows, or panes of windows, that have changed since they were emitted."""
        import polars as pl

        assert self._panes is not None, "it is a state of windows of time"
        shown = panes.unique()
        if self._is_bounded and self._panes.is_one_to_one:
            shown = shown.with_columns(self._panes.build_bounds())
        elif not self._is_bounded:
            shown = shown.with_columns(pl.lit(True).alias("changed"))
        else:
            shown = shown.with_columns(pl.col(SLOT).cast(to_polars(TIMESTAMP)).alias("pane_end"))
        return self._sort_rows(self._grouping.restore_names(shown.drop(SLOT)))

    def _read_timers(self, entries: pl.DataFrame) -> pl.DataFrame:
        """Return the times at which timers of keys may be due."""
        import polars as pl

        name = make_unique_name("time", self._key.names)
        time = pl.col(SLOT).cast(to_polars(TIMESTAMP)).alias(name)
        rows = self._grouping.restore_names(entries.select(*self._inside, time).unique())
        return self._sort_rows(rows, name)

    def _add_key_columns(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a table with the columns of their key in front."""
        key = decode_keys(table[KEY], self._key.columns)
        rest = [name for name in table.columns if name != KEY]
        return table.hstack(key).select(*self._key.names, *rest)

    def _finish_states(self, states: pl.DataFrame, extra_columns: Sequence[str]) -> pl.DataFrame:
        """Return the results of states, or the rows that they contain, after the key."""
        extra_columns = [name for name in extra_columns if name in states.columns]
        if WEIGHTED_ROWS in states.columns:
            fold = self._build_fold(states)
            assert isinstance(fold, WeightedFold), "it has stored these rows"
            states = fold.fold_rows(states)
            if isinstance(fold.inner, AggregateFold):
                return fold.inner.finish(states, (*self._inside, *extra_columns))
        before = [*self._key.names, *extra_columns]
        if KEPT_ROWS not in states.columns:
            return self._build_fold(states).finish(states, (*self._inside, *extra_columns))
        states = self._grouping.restore_names(states)
        states = states.select(
            *before, KEPT_ROWS, *(n for n in (EVENT_TIME,) if n in states.columns)
        )
        if not isinstance(self._operation, nodes.Top):
            return explode_stored_rows(
                sort_stored_rows(states, KEPT_ROWS), KEPT_ROWS, self._key, before, "row"
            )
        return explode_stored_rows(states, KEPT_ROWS, self._key, before, "rank")

    def _sort_rows(self, rows: pl.DataFrame, *last: str) -> pl.DataFrame:
        """Return the rows sorted for display: those of earlier windows come first."""
        bounds = [name for name in WINDOW_BOUNDS if name in rows.columns and self._is_bounded]
        by = [*bounds, *self._key.names, *last]
        return self._format_rows(rows.sort(by, maintain_order=True) if by else rows)

    @property
    def _is_bounded(self) -> bool:
        return self._meaning.window is not None and self._meaning.window.has_bounds

    def _format_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if not self._meaning.is_timed:
            rows = rows.drop(EVENT_TIME, NEWEST_TIME, strict=False)
        if EXPIRY in rows.columns:
            rows = rows.with_columns(pl.col(EXPIRY).cast(to_polars(TIMESTAMP)))
        return move_to_end(rows, METADATA_COLUMNS)

    def _build_fold(self, states: pl.DataFrame | None) -> Fold:
        """Return the fold that computes results of these states; None: of an empty state."""
        assert isinstance(self._operation, nodes.WindowedOperation), "it makes results"
        window = self._meaning.window
        if window is None:
            assert isinstance(self._operation, nodes.Aggregate), "its rows are all there is"
            return AggregateFold(self._operation, self._grouping, newest=True)
        stored = () if states is None else states.columns
        rows_column = next((n for n in (KEPT_ROWS, WEIGHTED_ROWS) if n in stored), None)
        types = (
            get_row_types(states.schema, rows_column)
            if states is not None and rows_column
            else self._build_row_columns()
        )
        newest = isinstance(window.shape, Global)
        return build_fold(self._operation, self._grouping, types, newest=newest)

    def _build_empty_state(self, name: str) -> pl.DataFrame:
        """Return an empty state with the operator's schema."""
        import polars as pl

        number, key = pl.Int64(), self._grouping.types
        if name in self._meaning.value_columns:
            columns = changelog_state.build_value_columns(self._meaning, key, name)
            return pl.DataFrame(schema=columns)
        match name:
            case "keys":
                columns = {KEY: pl.String(), **self._build_key_columns()}
            case "counts":
                columns = {KEY: pl.String(), ROW_COUNT: number}
            case "panes":
                panes = {PANE_NUMBER: number, ROW_COUNT: number}
                columns = {KEY: pl.String(), **key, **panes, **self._build_fold(None).state_columns}
            case "changed" | "due" | "waits" | states.NEWEST_STATE:
                columns = {**key, SLOT: number}
            case "sequence":
                columns = {LAST_NUMBER: number}
            case states.LOOP_STATE:
                columns = {each.name: to_polars(each.type) for each in self._meaning.stored_columns}
            case "fired":
                columns = {**key, FRAGMENT_START: number, FRAGMENT_END: number, SLOT: number}
            case "ranking":
                row = self._build_row_columns()
                del row[ROW_TIME]
                columns = changelog_state.build_page_columns(key, row)
            case "rows":
                columns = changelog_state.build_row_columns(
                    self._meaning, key, self._build_row_columns()
                )
                columns.pop(ROW_TIME, None)
            case "waiting":
                time = {EVENT_TIME: to_polars(TIMESTAMP), SLOT: number}
                columns = {**key, **self._build_row_columns(), **time}
                del columns[ROW_TIME]
            case "windows":
                columns = {**key, SLOT: number, **self._build_fold(None).state_columns}
            case _:
                pieces = {FRAGMENT_START: number, FRAGMENT_END: number, SLOT: number}
                columns = {**key, **pieces, **self._build_fold(None).state_columns}
        return pl.DataFrame(schema=columns)

    def _build_key_columns(self) -> dict[str, pl.DataType]:
        """Return the columns that a running step stores of a key."""
        import polars as pl

        if self._stores_changes:
            rows = self._build_row_columns()
            del rows[ROW_TIME]
            return changelog_state.build_group_columns(self._meaning, rows)
        until = {EXPIRY: pl.Int64()} if self._meaning.has_ttl else {}
        match self._operation:
            case nodes.Match():
                return list_match_columns(self._operation)
            case nodes.Over():
                return {**list_table_columns(self._operation), **until}
            case nodes.Dedup() if self._operation.changes is not None:
                return {**get_change_types(self._operation), **until}
            case nodes.Aggregate():
                shown = {IS_EMITTED: pl.Boolean()} if self._meaning.has_having else {}
                return {**self._build_fold(None).state_columns, **shown, **until}
            case nodes.Top():
                best = {BEST_ROWS: pl.List(pl.Struct(self._build_row_columns()))}
                return {**best, NEWEST_TIME: to_polars(TIMESTAMP), **until}
        return {NEWEST_TIME: to_polars(TIMESTAMP), **until} if self._meaning.has_ttl else {}

    def _build_row_columns(self) -> dict[str, pl.DataType]:
        """Return the columns of stored rows."""
        columns = {field.name: to_polars(field.type) for field in self._meaning.stored_columns}
        return {**columns, ORDER: to_polars(ORDER_TYPE), ROW_TIME: to_polars(BIGINT)}


def _concat_frames(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    alike = all(frame.columns == frames[0].columns for frame in frames)
    return pl.concat(frames, how="vertical" if alike else "diagonal")
