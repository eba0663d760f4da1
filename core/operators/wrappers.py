"""Wrappers of operators: error attribution, and one operator per clock.

Errors of user code are attributed to the step. A keyed step whose key groups have different clocks
has one operator per range of equal clock.

Different clocks happen after a restart at another parallelism, if the earlier subtasks had reached
different watermarks (an input that is idle for one may hold back the clock of another). A row is
late or not by the clock of its own key group, and no window fires twice, so each range runs on its
own. After the next restart, when the clocks are equal, the ranges are one operator again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.core.api.user_code import UserCode, UserCodeError, format_error, locate_error
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.operator import Operator, Output, TwoInputOperator
from headrace.core.plan.nodes import ComputedColumn
from headrace.core.types.key_groups import compute_row_groups

if TYPE_CHECKING:
    import polars as pl


class OperatorWrapper:
    """An operator that leaves its work to another one; a subclass changes a part of it."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.watermark_delay_us = operator.watermark_delay_us

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows."""
        return self._operator.process(frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark."""
        return self._operator.advance(watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time of the next tick, if any."""
        return self._operator.next_tick_us()

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        return self._operator.tick(now_us)

    def flush_to_state(self) -> None:
        """Flush buffered rows to state."""
        self._operator.flush_to_state()

    @property
    def pending_rows(self) -> int:
        """The estimated number of rows that the next advance may work on."""
        return self._operator.pending_rows


class ErrorAttributingOperator(OperatorWrapper):
    """A wrapper of another operator that attributes the errors of its user code to the step."""

    def __init__(self, step: str, codes: Sequence[UserCode], operator: Operator) -> None:
        super().__init__(operator)
        self._step = step
        self._codes = codes

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows."""
        with self._attribute_errors():
            yield from self._operator.process(frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark."""
        with self._attribute_errors():
            yield from self._operator.advance(watermark_us)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        with self._attribute_errors():
            yield from self._operator.tick(now_us)

    def flush_to_state(self) -> None:
        """Flush buffered rows to state; this may call user code as well."""
        with self._attribute_errors():
            self._operator.flush_to_state()

    @contextmanager
    def _attribute_errors(self) -> Iterator[None]:
        with attribute_errors_to(self._step):
            try:
                yield
            except (Exception, GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit(), or a panic of Polars
                places = [locate_error(error, code.path) for code in self._codes]
                place = next((each for each in places if ":" in each), places[0])
                raise UserCodeError(f"{place}: {format_error(error)}") from error


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
