"""`as_of`: each left row is joined with the right row of its key that is valid at its time.

That is the right row with the latest time that is not after the left row's. So rows of both sides
wait until the watermark has passed them; then the left rows are emitted in the order of their time.
The cost of advancing time depends on the rows that are due, not on the number of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import MAX_WATERMARK_US
from headrace.core.frames import filter_rows, gather_rows, pick_columns
from headrace.core.operators.joins.pairs import JoinOutput
from headrace.core.operators.joins.sides import LEFT, RIGHT, JoinSideColumns
from headrace.core.operators.joins.versions import VERSION_NUMBER, VersionTable
from headrace.core.operators.operator import (
    MAX_OUTPUT_ROWS,
    ClocklessOperator,
    Output,
    UndelayedOperator,
    request_offload,
)
from headrace.core.operators.place import KeyedContext
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOfMatch
from headrace.core.state import KEY, SLOT, RunsLayout

if TYPE_CHECKING:
    import polars as pl

WAITING_STATE = "left"
"""The name of the state of left rows."""
ROW_NUMBER = "__row"


class AsOfJoin(ClocklessOperator, UndelayedOperator):
    """The operator of an inner or left join with `as_of`."""

    def __init__(self, operation: nodes.Join, matching: AsOfMatch, place: KeyedContext) -> None:
        self._context = place
        self._state = place.state
        self._late_to = operation.late_to
        self._is_inner = operation.type == "inner"
        self._left = JoinSideColumns(operation, LEFT, ordered=place.is_ordered)
        self._pairs = JoinOutput(operation, place.stream, ordered=place.is_ordered)
        self._versions = VersionTable(operation, matching.ttl_us, place)
        self._version_columns = [n for n in self._versions.columns if n != self._versions.side.time]
        kept = {name: type for name, type in self._left.types.items() if name != self._left.time}
        layout = RunsLayout(kept, self._left.key, lambda rows: rows)
        self._waiting = place.state.open_runs(WAITING_STATE, layout)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer left rows for the watermark."""
        yield from request_offload(self._waiting.estimate_deferred_rows(asking=False))
        rows = self._left.project_input(
            (yield from self._context.drop_late_rows(frame, self._late_to[LEFT]))
        )
        if self._is_inner and (lacks := self._left.find_null_keys(rows)) is not None:
            rows = rows.filter(~lacks)
        self._waiting.add(rows.rename({self._left.time: SLOT}))

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer right rows for the watermark."""
        yield from request_offload(self._versions.count_deferred_rows(asking=False))
        self._versions.add((yield from self._context.drop_late_rows(frame, self._late_to[RIGHT])))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the left rows that the watermark has passed."""
        if watermark_us <= self._state.clock_us:
            return
        self._state.clock_us = watermark_us
        until_us = watermark_us if watermark_us == MAX_WATERMARK_US else watermark_us - 1
        first = self._waiting.get_first_slot()
        asked = first is not None and first <= until_us
        if asked or self._versions.has_due(until_us):
            yield from request_offload(self._versions.count_deferred_rows(asking=True))
        due = self._versions.take_due(until_us)
        rows = self._waiting.take(until_us) if asked else None
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
