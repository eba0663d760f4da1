"""Groups of rows that may be removed, which are forgotten by `ttl` with all that is stored of them.

A group expires when the watermark is later than the event time of its newest row plus the `ttl`.
Then nothing is emitted, and the next row of its key is its first.

A change of a row that is older than the watermark by more than the `ttl` is late, whether it adds
the row or removes it. So the group of a row that is removed is still stored, and nothing is taken
from a group that has begun again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.core.api.state import KEY, KEY_INDEX, SLOT, RunsLayout
from headrace.core.operators.changelog.rows import NEWEST_TIME
from headrace.core.operators.changelog.weighted_rows import make_change_rows
from headrace.core.operators.joins.join_sides import compute_expired_us
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Operator, Output, request_offload
from headrace.core.operators.wrappers import OperatorWrapper
from headrace.core.plan.nodes import ComputedColumn
from headrace.core.plan.states import NEWEST_STATE
from headrace.core.types.elements import EVENT_TIME
from headrace.core.types.frames import filter_rows, gather_rows, to_integers

if TYPE_CHECKING:
    import polars as pl


class PagedGroupsOperator(Operator, Protocol):
    """An operator that stores a row for each group, and pages of the group's rows or values."""

    def forget_groups(self, groups: pl.DataFrame, until_us: int) -> None:
        """Remove those of these groups whose newest row is not later than this time.

        The groups have KEY and the columns of the key.
        """
        ...


class ExpiringGroupsOperator(OperatorWrapper):
    """A wrapper of an operator over changes that forgets its groups by `ttl`.

    The backend does not know which pages belong to a group, so it cannot expire them. The time of
    the newest row of each group in each batch is filed; when it has expired, and there was no later
    row, the operator removes the group.
    """

    def __init__(
        self,
        operator: PagedGroupsOperator,
        key: Sequence[ComputedColumn],
        ttl_us: int,
        context: KeyedContext,
    ) -> None:
        super().__init__(operator)
        self._groups = operator
        self._grouping = GroupingKey(key)
        self._ttl_us = ttl_us
        self._context = context
        layout = RunsLayout(
            self._grouping.types, self._grouping.internal_names, self._select_newest
        )
        self._newest = context.state.open_runs(NEWEST_STATE, layout)

    @property
    def pending_rows(self) -> int:
        """The number of times that expiry may look at."""
        return self._newest.rows

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Leave out late changes, and process the others."""
        import polars as pl

        frame = yield from drop_expired_changes(frame, self._ttl_us, self._context)
        if not frame.height:
            return
        yield from request_offload(self._newest.estimate_deferred_rows(for_lookup=False))
        time = pl.col(EVENT_TIME).cast(pl.Int64).alias(SLOT)
        self._newest.add(self._select_newest(self._grouping.project_columns(frame, (), time)))
        yield from self._operator.process(frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Forget the groups of which no change will come any more; nothing is emitted."""
        state = self._context.state
        state.clock_us = max(state.clock_us, watermark_us)
        expired_us = compute_expired_us(state.clock_us, self._ttl_us)
        ended = self._newest.take(expired_us)
        if ended is not None and ended.height:
            self._groups.forget_groups(self._grouping.encode_keys(ended), expired_us)
        return self._operator.advance(watermark_us)

    def _select_newest(self, times: pl.DataFrame) -> pl.DataFrame:
        """Return the newest time of each key."""
        import polars as pl

        newest = pl.col(SLOT).max()
        names = self._grouping.internal_names
        if not names:
            return times.select(newest)
        return times.group_by(names).agg(newest).select(times.columns)


def drop_expired_changes(
    frame: pl.DataFrame, ttl_us: int, context: KeyedContext
) -> Generator[Output, None, pl.DataFrame]:
    """Return the changes of rows that have not expired; count the others as late."""
    is_late = to_integers(frame[EVENT_TIME]) <= compute_expired_us(context.state.clock_us, ttl_us)
    if not is_late.any():
        return frame
    yield from context.emit_late_rows(None, make_change_rows(filter_rows(frame, is_late)))
    return filter_rows(frame, ~is_late)


def select_expired_groups(groups: pl.DataFrame, found: pl.DataFrame, until_us: int) -> pl.DataFrame:
    """Return the stored groups whose newest row is not later than this time, with their values.

    `found` are the rows that were found for the KEY of these groups.
    """
    stored = found.drop(KEY, KEY_INDEX).get_columns()
    joined = gather_rows(groups, found[KEY_INDEX]).hstack(stored)
    return filter_rows(joined, to_integers(joined[NEWEST_TIME]) <= until_us)
