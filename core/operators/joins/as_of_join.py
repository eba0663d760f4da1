"""The `as_of` join: each left row with the right row of its key that is valid at its time.

A right row is a version of its key, valid until the next one. If the right input is a table, these
are all changes of its rows, and versions of one time are ordered by the sequence of the changes.
Versions that the watermark has not passed wait in the order of their time. Of the others the last
one of each key is stored in a table: no later left row matches an earlier one. A version that
deletes its key is valid like any other, but matches nothing.

The right row that is valid is the one with the latest time that is not after the left row's. So
rows of both sides wait until the watermark has passed them; then the left rows are emitted in the
order of their time. The cost of advancing time depends on the rows that are due, not on the number
of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY, KEY_INDEX, NO_CLOCK_US, SLOT, RunsLayout
from headrace.core.operators.changelog.weighted_rows import make_change_rows
from headrace.core.operators.joins.join_sides import LEFT, RIGHT, JoinSideColumns
from headrace.core.operators.joins.matched_pairs import JoinOutput
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import (
    MAX_OUTPUT_ROWS,
    ClocklessOperator,
    Output,
    UndelayedOperator,
    request_offload,
)
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import AsOfMatch
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, MAX_WATERMARK_US, ORDER, SEQUENCE
from headrace.core.types.frames import (
    add_columns,
    concat_chunks,
    filter_rows,
    gather_rows,
    pick_columns,
    select_columns,
    to_integers,
)
from headrace.core.types.key_groups import hash_keys

if TYPE_CHECKING:
    import polars as pl


COMING_STATE, VERSIONS_STATE = "right", "versions"
"""The names of the states."""


IS_DELETE = "__gone"
"""Whether a version deletes its key."""


PART_NUMBER = "__part"
"""The part number of a row, in addition to its number; of versions of one time the last is valid.
"""


ARRIVAL_NUMBER = "__came"
"""The arrival number of a version: changelog rows of a key may have equal positions."""


VERSION_NUMBER = "__at"
"""The number of the version that a row matches; null: none."""


class VersionTable:
    """Right rows, by key and time."""

    def __init__(self, operation: nodes.Join, matching: AsOfMatch, context: KeyedContext) -> None:
        import polars as pl

        self.side = JoinSideColumns(operation, RIGHT, ordered=True)
        self._ttl_us = matching.ttl_us
        sequence = matching.sequence
        sequences = {} if sequence is None else {SEQUENCE: to_polars(sequence.value.type)}
        self._state = context.state
        hidden = (self.side.time, self._number_column) if context.is_ordered else (self.side.time,)
        self.columns = (*self.side.columns, *hidden)
        """The columns returned for matches, without the key."""
        waiting = {n: type for n, type in self.side.types.items() if n != self.side.time}
        waiting |= {PART_NUMBER: pl.Int64(), ARRIVAL_NUMBER: pl.Int64(), IS_DELETE: pl.Boolean()}
        waiting |= sequences
        self._sequence_columns = [*sequences]
        self._order_columns = [
            *self._sequence_columns,
            self._number_column,
            PART_NUMBER,
            ARRIVAL_NUMBER,
        ]
        """The columns by which versions of one time are ordered; the last of them is valid."""
        layout = RunsLayout(waiting, self.side.key, lambda rows: rows)
        self._waiting = context.state.open_runs(COMING_STATE, layout)
        self._next_arrival: int | None = None
        """The arrival number of the next version; None: unknown since the restore."""
        self._table = context.state.open_table(
            VERSIONS_STATE, {name: self.side.types[name] for name in self.columns}
        )

    @property
    def waiting_rows(self) -> int:
        """The number of waiting versions."""
        return self._waiting.rows

    def count_deferred_rows(self, *, for_lookup: bool) -> int:
        """Return the number of earlier rows that the next call works on."""
        clock_us = self._state.clock_us
        return (
            self._table.estimate_deferred_rows(clock_us)
            if for_lookup
            else self._waiting.estimate_deferred_rows(for_lookup=False)
        )

    def add(self, frame: pl.DataFrame) -> None:
        """Buffer rows that are not late; a row without key matches nothing."""
        import polars as pl

        is_delete = (
            pl.col(DELETE).fill_null(False)
            if DELETE in frame.columns
            else pl.repeat(False, pl.len())
        )
        first = self._next_number()
        self._next_arrival = first + frame.height
        rows = self.side.project_input(
            frame,
            pl.col(ORDER).struct.field("part").alias(PART_NUMBER),
            pl.int_range(first, first + pl.len()).alias(ARRIVAL_NUMBER),
            is_delete.alias(IS_DELETE),
            *map(pl.col, self._sequence_columns),
        )
        lacks = self.side.find_null_keys(rows)
        rows = rows if lacks is None else rows.filter(~lacks)
        self._waiting.add(rows.rename({self.side.time: SLOT}))

    def has_due(self, until_us: int) -> bool:
        """Whether the watermark has passed any waiting version."""
        first = self._waiting.get_first_slot()
        return first is not None and first <= until_us

    def take_due(self, until_us: int) -> pl.DataFrame | None:
        """Remove and return the versions due up to this time, with KEY, in order of validity."""
        rows = self._waiting.take(until_us) if self.has_due(until_us) else None
        if rows is None:
            return None
        if not self._is_sorted(rows):
            rows = rows.sort(SLOT, *self._order_columns)
        rows = self.side.encode_keys(rows).hstack([rows[SLOT].alias(self.side.time)])
        return rows[[KEY, *self.columns, IS_DELETE]]

    def find_matches(
        self, keys: pl.Series, times: pl.Series, due: pl.DataFrame | None
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Return versions, and the number of the one that each row matches; null for none.

        The rows, given by their keys and times, are sorted by time, and later than all stored
        versions. A null key matches nothing.
        """
        entries = self._table.find(keys.drop_nulls() if keys.null_count() else keys)
        stored_versions = entries[list(self.columns)]
        if due is None:
            return stored_versions, self._drop_invalid(
                stored_versions, _find_rows(keys, entries), times
            )
        rows = _match_due(keys, times, due, self.side.time)
        versions = due[[*self.columns, IS_DELETE]]
        if stored_versions.height:
            versions = concat_chunks(
                [
                    stored_versions.hstack([_build_constant(stored_versions, IS_DELETE, False)]),
                    versions,
                ]
            )
            rows = rows + stored_versions.height
            rows = rows.zip_with(rows.is_not_null(), _find_rows(keys, entries))
        return versions, self._drop_invalid(versions, rows, times)

    def store_last(self, due: pl.DataFrame | None) -> None:
        """Store the last one of these versions of each key, replacing the one before."""
        import polars as pl

        clock_us = self._state.clock_us
        if due is not None:
            last = _select_last(due)
            if last[IS_DELETE].any():
                self._table.remove(last.filter(IS_DELETE)[KEY])
                last = last.filter(~pl.col(IS_DELETE))
            if self._ttl_us is not None:
                last = add_columns(last, (pl.col(self.side.time) + self._ttl_us).alias(EXPIRY))
            self._table.put(last)
        if self._ttl_us is not None:
            self._table.expire(clock_us)

    @property
    def _number_column(self) -> str:
        assert self.side.number is not None, "versions of the same time need a position"
        return self.side.number

    def _next_number(self) -> int:
        """Return the arrival number of the next version."""
        if self._next_arrival is not None:
            return self._next_arrival
        before = self._waiting.read(NO_CLOCK_US, MAX_WATERMARK_US)
        return 0 if before is None else int(before[ARRIVAL_NUMBER].max()) + 1  # type: ignore[arg-type]

    def _is_sorted(self, rows: pl.DataFrame) -> bool:
        """Whether rows sorted by time are in order at each time, too, as they usually are."""
        now, before = rows.slice(1), rows.slice(0, rows.height - 1)
        same = now[SLOT] == before[SLOT]
        if not same.any():
            return True
        *others, last = self._order_columns
        out_of_order = now[last] < before[last]
        for name in reversed(others):
            out_of_order = (now[name] < before[name]) | ((now[name] == before[name]) & out_of_order)
        return not (same & out_of_order).any()

    def _drop_invalid(self, versions: pl.DataFrame, at: pl.Series, times: pl.Series) -> pl.Series:
        """Return the matches without deletes and expired versions."""
        if IS_DELETE in versions.columns and versions[IS_DELETE].any():
            at = _clear_where(at, versions[IS_DELETE][at])
        if self._ttl_us is not None:
            age = times - versions[self.side.time][at]
            at = _clear_where(at, age > self._ttl_us)
        return at


def _build_constant(rows: pl.DataFrame, name: str, value: bool) -> pl.Series:
    """Return a constant column for these rows."""
    import polars as pl

    return pl.Series(name, [value]).new_from_index(0, rows.height)


def _select_last(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the last row of each key."""
    # Strings are compared only where hashes are equal: a unique hash means a unique key.
    hashes = hash_keys(rows[KEY])
    if hashes.n_unique() == rows.height:
        return rows
    twice = hashes.is_duplicated()
    again = rows.filter(twice).unique(KEY, keep="last", maintain_order=True)
    return concat_chunks([rows.filter(~twice), again])


def _find_rows(keys: pl.Series, versions: pl.DataFrame) -> pl.Series:
    """Return the number of each key's row among the found ones; null if it has none."""
    import polars as pl

    rows = pl.int_range(versions.height, dtype=pl.UInt32, eager=True)
    if versions.height == len(keys):
        return rows
    none = pl.Series(VERSION_NUMBER, [None], dtype=pl.UInt32).new_from_index(0, len(keys))
    key_numbers = versions[KEY_INDEX]
    if keys.null_count():
        key_numbers = keys.is_not_null().arg_true()[key_numbers]
    return none.scatter(key_numbers, rows)


def _match_due(keys: pl.Series, times: pl.Series, due: pl.DataFrame, time: str) -> pl.Series:
    """Return the number of the last version of each row's key that is not after the row."""
    import polars as pl

    rows = pl.DataFrame({KEY: keys, time: times})
    ahead = select_columns(
        due, KEY, time, pl.int_range(pl.len(), dtype=pl.UInt32).alias(VERSION_NUMBER)
    )
    return rows.join_asof(ahead, on=time, by=KEY, check_sortedness=False)[VERSION_NUMBER]


def _clear_where(at: pl.Series, wrong: pl.Series) -> pl.Series:
    if wrong.null_count():
        wrong = wrong.fill_null(False)
    return at.set(wrong, None)


WAITING_STATE = "left"
"""The name of the state of left rows."""


ROW_NUMBER = "__row"


class AsOfJoin(ClocklessOperator, UndelayedOperator):
    """The operator of an inner or left join with `as_of`."""

    def __init__(self, operation: nodes.Join, matching: AsOfMatch, context: KeyedContext) -> None:
        self._context = context
        self._state = context.state
        self._late_to = operation.late_to
        self._is_inner = operation.type == "inner"
        self._left = JoinSideColumns(operation, LEFT, ordered=context.is_ordered)
        self._pairs = JoinOutput(operation, context.stream, ordered=context.is_ordered)
        self._versions = VersionTable(operation, matching, context)
        self._version_columns = [n for n in self._versions.columns if n != self._versions.side.time]
        waiting_types = {
            name: type for name, type in self._left.types.items() if name != self._left.time
        }
        layout = RunsLayout(waiting_types, self._left.key, lambda rows: rows)
        self._waiting = context.state.open_runs(WAITING_STATE, layout)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer left rows for the watermark."""
        yield from request_offload(self._waiting.estimate_deferred_rows(for_lookup=False))
        rows = self._left.project_input(
            (yield from self._context.drop_late_rows(frame, self._late_to[LEFT]))
        )
        if self._is_inner and (lacks := self._left.find_null_keys(rows)) is not None:
            rows = rows.filter(~lacks)
        self._waiting.add(rows.rename({self._left.time: SLOT}))

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer right rows for the watermark; a row without time is that before an update."""
        yield from request_offload(self._versions.count_deferred_rows(for_lookup=False))
        if frame[EVENT_TIME].null_count():
            frame = frame.filter(frame[EVENT_TIME].is_not_null())
        is_late = to_integers(frame[EVENT_TIME]) < self._state.clock_us
        if is_late.any():
            late = frame.filter(is_late)
            late = make_change_rows(late) if DELETE in frame.columns else late
            yield from self._context.emit_late_rows(self._late_to[RIGHT], late)
            frame = frame.filter(~is_late)
        self._versions.add(frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the left rows that the watermark has passed."""
        if watermark_us <= self._state.clock_us:
            return
        self._state.clock_us = watermark_us
        until_us = watermark_us if watermark_us == MAX_WATERMARK_US else watermark_us - 1
        first = self._waiting.get_first_slot()
        has_due_rows = first is not None and first <= until_us
        if has_due_rows or self._versions.has_due(until_us):
            yield from request_offload(self._versions.count_deferred_rows(for_lookup=True))
        due = self._versions.take_due(until_us)
        rows = self._waiting.take(until_us) if has_due_rows else None
        if rows is not None:
            times = rows[SLOT].alias(self._left.time)
            yield from self._emit_matches(rows.hstack([times]), due)
        self._versions.store_last(due)

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows."""
        return self._waiting.rows + self._versions.waiting_rows

    def _emit_matches(self, rows: pl.DataFrame, due: pl.DataFrame | None) -> Iterator[Output]:
        """Join these rows, sorted by time, each with the version that it matches."""
        keys = self._left.encode_keys(rows)[KEY]
        if (lacks := self._left.find_null_keys(rows)) is not None:
            keys = keys.set(lacks, None)
        versions, met = self._versions.find_matches(keys, rows[self._left.time], due)
        versions = pick_columns(versions, self._version_columns)
        if self._is_inner and met.null_count():
            meets = met.is_not_null()
            rows, met = filter_rows(rows, meets), met.filter(meets)
        for start in range(0, rows.height, MAX_OUTPUT_ROWS):
            part = rows.slice(start, MAX_OUTPUT_ROWS)
            yield from self._pairs.emit(
                self._build_pairs(part, versions, met.slice(start, MAX_OUTPUT_ROWS))
            )

    def _build_pairs(
        self, rows: pl.DataFrame, versions: pl.DataFrame, met: pl.Series
    ) -> pl.DataFrame:
        """Combine rows and versions, and apply the join condition."""
        pairs = _pair_rows(rows, versions, met)
        if not self._pairs.has_condition:
            return pairs
        if self._is_inner:
            return self._pairs.filter_pairs(pairs)
        import polars as pl

        found = pairs.with_row_index(ROW_NUMBER).filter(met.is_not_null())
        right = self._pairs.filter_pairs(found)[ROW_NUMBER]
        none = pl.Series(VERSION_NUMBER, [None], dtype=met.dtype).new_from_index(0, len(met))
        return _pair_rows(rows, versions, none.scatter(right, met[right]))


def _pair_rows(rows: pl.DataFrame, versions: pl.DataFrame, met: pl.Series) -> pl.DataFrame:
    return rows.hstack(gather_rows(versions, met).get_columns()) if versions.width else rows
