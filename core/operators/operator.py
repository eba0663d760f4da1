"""The contract of operators, and chains of operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.operators.round_budget import RoundBudget


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row on which a step failed, and the error."""

    error: str
    row: dict[str, Any]


MAX_OUTPUT_ROWS = 65536
"""The approximate size of output batches of operators that make many rows from few."""


Output: TypeAlias = "tuple[str, pl.DataFrame]"
"""A stream's name, and rows of the stream."""


OFFLOAD_ROWS = 2000
"""The number of rows from which work is worth a thread."""


OFFLOAD = ""
"""The stream name by which an operator requests that its next work runs off the event loop."""


def request_offload(rows: int) -> Iterator[Output]:
    """Request offloading if the next step works on many rows that arrived earlier.

    The current batch size does not predict this cost.
    """
    import polars as pl

    if rows >= OFFLOAD_ROWS:
        yield OFFLOAD, pl.DataFrame()


class Operator(Protocol):
    """A consumer of the rows of one stream; its iterators compute only as they are consumed."""

    watermark_delay_us: int
    """The largest distance by which output rows may be older than the watermark."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process input rows."""
        ...

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark; the rows that this triggers are emitted before it is forwarded."""
        ...

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time at which `tick` is due; None if none is."""
        ...

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock to this time."""
        ...

    def flush_to_state(self) -> None:
        """Write all buffered rows to the state; emit nothing and change no result.

        The state is snapshotted next. Only counts of this process, and values that can be rebuilt
        from the state, may stay outside of it.
        """
        ...

    @property
    def pending_rows(self) -> int:
        """The estimated number of rows that the next `advance` may work on."""
        ...


class TwoInputOperator(Operator, Protocol):
    """An operator with two inputs: `process` takes the rows of the left one."""

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows of the right input."""
        ...


class WriteThroughOperator:
    """An operator that keeps no rows outside its state."""

    def flush_to_state(self) -> None:
        """Do nothing: rows are written to the state as they come."""


class UndelayedOperator(WriteThroughOperator):
    """A write-through operator whose output rows are never older than the watermark."""

    watermark_delay_us = 0


class ClocklessOperator:
    """An operator without processing-time work."""

    def next_tick_us(self) -> int | None:
        """Return None: no tick is needed."""
        return None

    def tick(self, now_us: int) -> Iterator[Output]:
        """Do nothing."""
        return iter(())


class StatelessOperator(ClocklessOperator, UndelayedOperator):
    """The base of operators without state: time has no effect on them."""

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Do nothing."""
        return iter(())

    @property
    def pending_rows(self) -> int:
        """Always 0."""
        return 0


class RoundOperator(ABC, StatelessOperator):
    """The base of operators over the tables of rounds: what they take, they process at once when
    the round has ended."""

    budget: RoundBudget | None = None
    """The size of the rows that the operator may hold; None: any."""

    def _hold(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Count rows that are held to the end of the round, and return them.

        Raises ConnectorError if they are too many.
        """
        if self.budget is not None:
            self.budget.add(rows)
        return rows

    @abstractmethod
    def end_round(self) -> Iterator[Output]:
        """Process the rows of the round, and forget them."""


class OperatorChain:
    """A chain of operators: each consumes the output of the one before under its input's name."""

    def __init__(
        self, operators: Sequence[tuple[str, Operator]], two_sided: TwoInputOperator | None = None
    ) -> None:
        """Each operator comes with the stream that it reads; the first may be `two_sided`."""
        self._operators = operators
        self._two_input = two_sided
        self.emitted_rows: Counter[str] = Counter()
        """The number of emitted rows, by stream."""
        self.tap: Callable[[int, pl.DataFrame], None] | None = None
        """Looks at the rows that an operator is about to process; None: nobody looks."""

    def process(self, frame: pl.DataFrame, side: int = 0) -> Iterator[Output]:
        """Process rows with the first operator; rows of a right input have side 1."""
        if not side:
            return self._process_from(0, frame)
        assert self._two_input is not None, "the first operator has no right input"
        return self._forward(0, self._two_input.process_right(frame))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance each operator, after the ones before it."""
        for at, (_, operator) in enumerate(self._operators):
            yield from self._forward(at, operator.advance(watermark_us))
            watermark_us = _subtract_delay(watermark_us, operator.watermark_delay_us)

    def end_round(self) -> Iterator[Output]:
        """Let each operator over the tables of rounds end a round, after the ones before it."""
        for at, (_, operator) in enumerate(self._operators):
            if isinstance(operator, RoundOperator):
                if operator.budget is not None:
                    operator.budget.bytes = 0
                yield from self._forward(at, operator.end_round())

    def delay_watermark(self, watermark_us: int) -> int:
        """Return the watermark that holds for the emitted rows."""
        return _subtract_delay(
            watermark_us, sum(operator.watermark_delay_us for _, operator in self._operators)
        )

    def next_tick_us(self) -> int | None:
        """Return the earliest tick of the operators."""
        due = (operator.next_tick_us() for _, operator in self._operators)
        return min((at for at in due if at is not None), default=None)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock of each operator, after the ones before it."""
        for at, (_, operator) in enumerate(self._operators):
            yield from self._forward(at, operator.tick(now_us))

    def flush_to_state(self) -> None:
        """Flush the buffered rows of each operator, so that the states can be snapshotted."""
        for _, operator in self._operators:
            operator.flush_to_state()

    @property
    def pending_rows(self) -> int:
        """The sum of the operators' pending rows."""
        return sum(operator.pending_rows for _, operator in self._operators)

    def _process_from(self, at: int, frame: pl.DataFrame) -> Iterator[Output]:
        tap = self.tap  # read once: rows may pass in a thread, and the event loop removes the tap
        if tap is not None:
            tap(at, frame)
        return self._forward(at, self._operators[at][1].process(frame))

    def _forward(self, at: int, outputs: Iterator[Output]) -> Iterator[Output]:
        following = self._operators[at + 1][0] if at + 1 < len(self._operators) else None
        for stream, frame in outputs:
            if stream == OFFLOAD:
                yield stream, frame
            # An empty frame may also lack columns that were never computed.
            if not frame.height:
                continue
            self.emitted_rows[stream] += frame.height
            if stream == following:
                yield from self._process_from(at + 1, frame)
            else:
                yield stream, frame


def _subtract_delay(watermark_us: int, behind_us: int) -> int:
    return watermark_us if watermark_us == MAX_WATERMARK_US else watermark_us - behind_us
