"""The state of joins as rows for people, by input, under the column names after the join.

    left, right       the rows that may still find matches
    shown_left, ...   the emitted rows of sessions, which late rows may still change
    versions          the latest right row of each key, for rows to come
    keys              of changelogs: the current rows of both inputs, by key
    waiting, rules    of broadcast joins: rows that wait for their time, and the broadcast rows

The key comes first, under the column names of that input; a column that is the key is shown once.
The times come last: `event_time`, or the window; `came`, the wall-clock time of arrival; `until`,
when a row expires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.state import EXPIRY, KEY, NO_CLOCK_US, SLOT
from headrace.core.expressions.typed import ColumnReference
from headrace.core.operators.changelog.weighted_rows import consolidate, repeat_rows
from headrace.core.operators.folds import get_row_types
from headrace.core.operators.joins import broadcast_join, table_join
from headrace.core.operators.joins.as_of_join import VERSIONS_STATE
from headrace.core.operators.joins.join_sides import (
    LEFT,
    RIGHT,
    SIDE_STATES,
    TIME_COLUMNS,
    TimeBounds,
)
from headrace.core.operators.joins.materialized_side import ID_COLUMNS, ROW_COLUMNS
from headrace.core.operators.joins.session_join import EMITTED_PREFIX, EMITTED_STARTS
from headrace.core.operators.joins.state_layout import get_state_layouts
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    IntervalMatch,
    TableMatch,
)
from headrace.core.plan.nodes.windows import Session
from headrace.core.state_reader.columns import make_unique_name, move_to_end
from headrace.core.state_reader.keys import decode_keys
from headrace.core.state_reader.panes import PaneReader
from headrace.core.state_reader.state_schema import JoinStateSchema
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import WEIGHT

if TYPE_CHECKING:
    import polars as pl

    ColumnExpressions: TypeAlias = Mapping[str, pl.Expr]

HIDDEN_TIME_COLUMNS = ("window_start", "window_end", "event_time", "came", "until")
"""The times of a row, shown after its columns."""


class JoinStateReader:
    """The reader of one join's state."""

    def __init__(self, meaning: JoinStateSchema) -> None:
        self._meaning = meaning
        self._join = join = meaning.operation
        self._sides = (join.left, join.right)
        self._inside = GroupingKey(join.left.key).internal_names
        self._layouts = get_state_layouts(join, ordered=meaning.is_ordered)

    def list_identity_columns(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row of a state, if some do."""
        columns, key = next(self.read(name, [], NO_CLOCK_US)).columns, len(self._inside)
        if name == VERSIONS_STATE:
            return tuple(columns[:key])
        if name == "keys":
            return tuple(columns[: key + 1 + self._has_ids])
        return tuple(columns)

    def read(
        self, name: str, frames: Sequence[pl.DataFrame], clock_us: int
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a state: at least one frame, which may be empty."""
        import polars as pl

        rows = pl.concat(frames, how="diagonal") if frames else self._build_empty_state(name)
        if name == "keys":
            yield self._read_current_rows(rows)
        elif name == broadcast_join.RULES_STATE:
            yield self._read_broadcast_rows(rows)
        elif name == VERSIONS_STATE:
            times = {**self._build_event_time(RIGHT), **_build_expiry(rows)}
            yield self._sort_rows(RIGHT, self._add_key_columns(RIGHT, rows), times)
        elif name == broadcast_join.WAITING_STATE:
            yield self._sort_rows(LEFT, rows, self._build_event_time(LEFT))
        else:
            which = RIGHT if name.endswith(SIDE_STATES[RIGHT]) else LEFT
            yield from self._read_filed_rows(
                which, rows, clock_us, was_emitted=name.startswith(EMITTED_PREFIX)
            )

    def _read_filed_rows(
        self, which: int, rows: pl.DataFrame, clock_us: int, *, was_emitted: bool
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of one side that are filed under a time."""
        import polars as pl

        if WEIGHT in rows.columns:
            rows = repeat_rows(consolidate(rows))
        slot, window = pl.col(SLOT), self._meaning.window
        at = self._build_event_time(which)
        match self._join.matching:
            case IntervalMatch(
                least_us=int(least), most_us=int(most), uses_processing_time=processing
            ):
                at = {**at, "came": slot} if processing else {"event_time": slot}
                at["until"] = slot + TimeBounds(least, most, self._join.type).get_retention_us(
                    which
                )
            case AsOfMatch():
                at = {"event_time": slot}
            case TableMatch(ttl_us=int(ttl_us)):
                at["until"] = slot + table_join.get_retention_us(ttl_us)
        if window is None or not window.has_bounds:
            yield self._sort_rows(which, rows, at)
        elif isinstance(window.shape, Session):
            start_and_end = (pl.col(EMITTED_STARTS[which]), slot - window.lateness_us - 1)
            bounds = (
                dict(zip(nodes.WINDOW_BOUNDS, start_and_end, strict=True)) if was_emitted else {}
            )
            yield self._sort_rows(which, rows, {**bounds, **at})
        else:
            panes, bounds = PaneReader(window), {name: pl.col(name) for name in nodes.WINDOW_BOUNDS}
            for part in panes.expand_windows(rows, self._inside, clock_us):
                yield self._sort_rows(which, part.with_columns(panes.build_bounds()), bounds)

    def _read_current_rows(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the current rows of both inputs, each with the name of its input."""
        import polars as pl

        keyed, sides = self._add_key_columns(LEFT, table), []
        for which, side in enumerate(self._sides):
            there = keyed.filter(pl.col(ROW_COLUMNS[which]).is_not_null())
            rows = there.explode(ROW_COLUMNS[which]).unnest(ROW_COLUMNS[which])
            side_columns = {"side": pl.lit(side.name)}
            if self._has_ids:
                has = ID_COLUMNS[which] in rows.columns
                side_columns["row"] = (
                    pl.col(ID_COLUMNS[which]) if has else pl.lit(None, dtype=pl.String())
                )
            times = {**self._build_event_time(which), **_build_expiry(table)}
            sides.append(
                self._select_columns(which, rows, side_columns, times, self._join.left.key)
            )
        whole = pl.concat(sides, how="diagonal")
        by = whole.columns[: len(self._inside)]
        return _move_times_to_end(whole.sort(by, maintain_order=True) if by else whole)

    def _read_broadcast_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the broadcast rows, each valid until another replaces it."""
        import polars as pl

        matching, side = self._join.matching, self._join.right
        assert isinstance(matching, BroadcastMatch), "nothing else has rules"
        times = self._build_event_time(RIGHT)
        if matching.uses_event_time:
            rows = broadcast_join.compute_validity(rows, matching)
            times["until"] = pl.col(broadcast_join.VALID_UNTIL)
            if matching.ttl_us is not None:  # the latest time of the row's validity
                last = pl.col(TIME_COLUMNS[RIGHT]) + matching.ttl_us
                times["until"] = pl.min_horizontal(broadcast_join.VALID_UNTIL, last)
        shown = _list_input_columns(side.key) | _list_input_columns(side.columns)
        of = zip(matching.key or (), broadcast_join.name_replacement_key(matching), strict=True)
        side_columns = {
            e.name: pl.col(name) for e, name in of if not _list_input_columns([e]) & shown
        }
        return _move_times_to_end(self._select_columns(RIGHT, rows, side_columns, times, side.key))

    def _sort_rows(self, which: int, rows: pl.DataFrame, times: ColumnExpressions) -> pl.DataFrame:
        """Return the rows of a side, sorted by key and time."""
        key = self._sides[which].key
        found = self._select_columns(which, rows, {}, times, key)
        by = [*(each.name for each in key), *(_hide_name(name) for name in times)]
        return _move_times_to_end(found.sort(by, maintain_order=True) if by else found)

    def _select_columns(
        self,
        which: int,
        rows: pl.DataFrame,
        side_columns: ColumnExpressions,
        times: ColumnExpressions,
        key: Sequence[nodes.ComputedColumn],
    ) -> pl.DataFrame:
        """Return the rows of a side: key, metadata, columns, times."""
        import polars as pl

        side, stamp = self._sides[which], to_polars(TIMESTAMP)
        used_names = [each.name for each in key]
        columns = [pl.col(i).alias(name) for i, name in zip(self._inside, used_names, strict=True)]
        for name, expr in side_columns.items():
            used_names.append(
                make_unique_name(
                    name, [*used_names, *(c.name for s in self._sides for c in s.columns)]
                )
            )
            columns.append(expr.alias(used_names[-1]))
        for each in side.columns:
            if not _list_input_columns([each]) & _list_input_columns(side.key):
                used_names.append(make_unique_name(each.name, used_names))
                columns.append(pl.col(each.name).alias(used_names[-1]))
        for name, expr in times.items():
            columns.append(expr.cast(stamp).alias(_hide_name(name)))
        return rows.select(columns)

    def _build_event_time(self, which: int) -> dict[str, pl.Expr]:
        """Return the event time of a row, if it has one."""
        import polars as pl

        return (
            {"event_time": pl.col(TIME_COLUMNS[which])} if self._meaning.timed_inputs[which] else {}
        )

    def _add_key_columns(self, which: int, table: pl.DataFrame) -> pl.DataFrame:
        """Add the columns of the key to the rows of a table."""
        keys = decode_keys(table[KEY], self._meaning.key.columns)
        inside = [each.alias(name) for each, name in zip(keys, self._inside, strict=True)]
        return table.hstack(inside)

    @property
    def _has_ids(self) -> bool:
        """Whether the rows of one key have ids."""
        layout = self._layouts["keys"]
        return any(
            id in get_row_types(layout, rows)
            for id, rows in zip(ID_COLUMNS, ROW_COLUMNS, strict=True)
        )

    def _build_empty_state(self, name: str) -> pl.DataFrame:
        """Return an empty state with the operator's schema."""
        import polars as pl

        layout, matching = self._layouts[name], self._join.matching
        forgets = isinstance(matching, AsOfMatch) and matching.ttl_us is not None
        forgets |= isinstance(matching, ChangelogMatch) and matching.ttl is not None
        until = {EXPIRY: pl.Int64()} if forgets and KEY in layout else {}
        return pl.DataFrame(schema={**layout, **until})


def _build_expiry(table: pl.DataFrame) -> dict[str, pl.Expr]:
    """Return when the rows of a table expire, if they do."""
    import polars as pl

    return {"until": pl.col(EXPIRY)} if EXPIRY in table.columns else {}


def _list_input_columns(columns: Iterable[nodes.ComputedColumn]) -> set[str]:
    """Return the input columns that these columns are."""
    return {c.value.name for c in columns if isinstance(c.value, ColumnReference) and c.value.name}


def _hide_name(name: str) -> str:
    return f"__{name}"


def _move_times_to_end(rows: pl.DataFrame) -> pl.DataFrame:
    """Move the times to the end, under names that no other column has."""
    return move_to_end(rows, [(_hide_name(name), name) for name in HIDDEN_TIME_COLUMNS])
