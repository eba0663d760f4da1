"""A keyed step whose key groups have different clocks: one operator per range of equal clock.

This happens after a restart at another parallelism, if the earlier subtasks had reached different
watermarks (an input that is idle for one may hold back the clock of another). A row is late or not
by the clock of its own key group, and no window fires twice, so each range runs on its own. After
the next restart, when the clocks are equal, the ranges are one operator again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import to_expr
from headrace.core.keygroups import compute_row_groups
from headrace.core.operators.operator import Operator, Output, TwoInputOperator
from headrace.core.plan.nodes import ComputedColumn

if TYPE_CHECKING:
    import polars as pl


class PerClockOperator:
    """Operators for ranges of key groups, between which rows are routed.

    The operators `parts` run over the states that `StateOwnership` divides.
    """

    def __init__(
        self,
        key: Sequence[ComputedColumn],
        key_groups: int,
        parts: Sequence[tuple[range, Operator]],
    ) -> None:
        self._grouper = _KeyGrouper(key)
        self._key_groups = key_groups
        self._parts = parts
        self.watermark_delay_us = max(operator.watermark_delay_us for _, operator in parts)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Route each row to the operator of its key group."""
        groups = self._grouper.compute_groups(frame, self._key_groups)
        for owned, operator in self._parts:
            if (rows := _filter_groups(frame, groups, owned)).height:
                yield from operator.process(rows)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance each operator; one that is already there does nothing."""
        for _, operator in self._parts:
            yield from operator.advance(watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the earliest tick of the operators."""
        due = (operator.next_tick_us() for _, operator in self._parts)
        return min((at for at in due if at is not None), default=None)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock of each operator."""
        for _, operator in self._parts:
            yield from operator.tick(now_us)

    def flush_to_state(self) -> None:
        """Flush the buffered rows of each operator to its state."""
        for _, operator in self._parts:
            operator.flush_to_state()

    @property
    def pending_rows(self) -> int:
        """The sum of the operators' pending rows."""
        return sum(operator.pending_rows for _, operator in self._parts)


class PerClockTwoInputOperator(PerClockOperator):
    """A PerClockOperator with two keyed inputs."""

    def __init__(
        self,
        keys: tuple[Sequence[ComputedColumn], Sequence[ComputedColumn]],
        key_groups: int,
        parts: Sequence[tuple[range, TwoInputOperator]],
    ) -> None:
        super().__init__(keys[0], key_groups, parts)
        self._right_grouper = _KeyGrouper(keys[1])
        self._sides = parts

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Route each row of the right input to the operator of its key group."""
        groups = self._right_grouper.compute_groups(frame, self._key_groups)
        for owned, operator in self._sides:
            if (rows := _filter_groups(frame, groups, owned)).height:
                yield from operator.process_right(rows)


class PerClockBroadcastOperator(PerClockOperator):
    """A PerClockOperator whose right input has no key and goes to all parts."""

    def __init__(
        self,
        key: Sequence[ComputedColumn],
        key_groups: int,
        parts: Sequence[tuple[range, TwoInputOperator]],
    ) -> None:
        super().__init__(key, key_groups, parts)
        self._sides = parts

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Pass the rows to every operator."""
        for _, operator in self._sides:
            yield from operator.process_right(frame)


class _KeyGrouper:
    """The key groups of the rows of an input."""

    def __init__(self, key: Sequence[ComputedColumn]) -> None:
        self._key = [to_expr(each.value).alias(each.name) for each in key]
        self._names = [each.name for each in key]

    def compute_groups(self, frame: pl.DataFrame, key_groups: int) -> pl.Series:
        """Return the key group of each row."""
        keys = frame.select(self._key) if self._key else frame
        return compute_row_groups(keys, self._names, key_groups)


def _filter_groups(frame: pl.DataFrame, groups: pl.Series, owned: range) -> pl.DataFrame:
    return frame.filter(groups.is_between(owned.start, owned.stop, closed="left"))
