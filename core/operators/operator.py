"""The contract of an operator, and operators in a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.elements import FOREVER_US

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS = 65536
"""An operator that makes many rows of few puts out batches of at most about this many."""

Output: TypeAlias = "tuple[str, pl.DataFrame]"
"""A stream's name, and rows of it."""
LONG_ROWS = 2000
"""Work on fewer rows is short."""

ASIDE = ""
"""The name under which an operator puts out that what comes next takes long, and nothing else."""


def aside(rows: int) -> Iterator[Output]:
    """Said before work on so many rows that had come before: many of them belong in a thread.

    By the rows that come now nobody could know.
    """
    import polars as pl

    if rows >= LONG_ROWS:
        yield ASIDE, pl.DataFrame()


class Operator(Protocol):
    """Takes the rows of one stream; nothing is computed before the caller asks for it."""

    behind_us: int
    """How much older than the watermark its rows may be."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Rows have come."""
        ...

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Time has come this far; what it triggers is put out before the watermark goes on."""
        ...

    def due_us(self) -> int | None:
        """When, by the wall clock, it wants to be told of the time."""
        ...

    def tick(self, now_us: int) -> Iterator[Output]:
        """The wall clock has come this far."""
        ...

    def settle(self) -> None:
        """File in its state all that it keeps beside it; nothing is put out, and nothing changes.

        Its state is frozen next. What it may keep elsewhere are counts of what this process did,
        and whatever can be made again of its state.
        """
        ...

    @property
    def held(self) -> int:
        """About how many rows it may have to work on when time goes on."""
        ...


class TwoSided(Operator, Protocol):
    """Takes the rows of two inputs: `process` those of the left one."""

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Rows of the right input have come."""
        ...


class Filed:
    """An operator that keeps nothing beside its state."""

    def settle(self) -> None:
        """All is filed as it comes."""


class Timely(Filed):
    """An operator whose rows are never older than the watermark; all that it keeps is state."""

    behind_us = 0


class Clockless:
    """An operator to which the wall clock means nothing."""

    def due_us(self) -> int | None:
        """Nothing waits for a clock."""
        return None

    def tick(self, now_us: int) -> Iterator[Output]:
        """Nothing waits for a clock."""
        return iter(())


class Stateless(Clockless, Timely):
    """What operators without state have in common: time means nothing to them."""

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Nothing waits for time."""
        return iter(())

    @property
    def held(self) -> int:
        """It holds nothing."""
        return 0


class Chain:
    """Operators in a row: what one puts out under the name the next one reads goes into that."""

    def __init__(
        self, operators: Sequence[tuple[str, Operator]], two_sided: TwoSided | None = None
    ) -> None:
        """Each operator with the name of the stream that it reads; the first may be `two_sided`."""
        self._operators = operators
        self._two_sided = two_sided
        self.put_out: Counter[str] = Counter()
        """How many rows the operators have put out, by stream."""

    def process(self, frame: pl.DataFrame, side: int = 0) -> Iterator[Output]:
        """Rows for the first operator; those of a right input have the side 1."""
        if not side:
            return self._process(0, frame)
        assert self._two_sided is not None, "only such an operator has a right input"
        return self._onward(0, self._two_sided.process_right(frame))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Every operator hears of it after those before it."""
        for at, (_, operator) in enumerate(self._operators):
            yield from self._onward(at, operator.advance(watermark_us))
            watermark_us = _less(watermark_us, operator.behind_us)

    def handed_on(self, watermark_us: int) -> int:
        """The watermark that holds for what has been put out."""
        return _less(watermark_us, sum(operator.behind_us for _, operator in self._operators))

    def due_us(self) -> int | None:
        """When the first of the operators wants to be told of the wall clock."""
        due = (operator.due_us() for _, operator in self._operators)
        return min((at for at in due if at is not None), default=None)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Every operator hears of the wall clock after those before it."""
        for at, (_, operator) in enumerate(self._operators):
            yield from self._onward(at, operator.tick(now_us))

    def settle(self) -> None:
        """Every operator files in its state what it keeps beside it; then states can be frozen."""
        for _, operator in self._operators:
            operator.settle()

    @property
    def held(self) -> int:
        """How many rows the operators may have to work on when time goes on."""
        return sum(operator.held for _, operator in self._operators)

    def _process(self, at: int, frame: pl.DataFrame) -> Iterator[Output]:
        return self._onward(at, self._operators[at][1].process(frame))

    def _onward(self, at: int, outputs: Iterator[Output]) -> Iterator[Output]:
        following = self._operators[at + 1][0] if at + 1 < len(self._operators) else None
        for stream, frame in outputs:
            if stream == ASIDE:
                yield stream, frame
            # Without rows it may lack columns, too: nobody computed them.
            if not frame.height:
                continue
            self.put_out[stream] += frame.height
            if stream == following:
                yield from self._process(at + 1, frame)
            else:
                yield stream, frame


def _less(watermark_us: int, behind_us: int) -> int:
    return watermark_us if watermark_us == FOREVER_US else watermark_us - behind_us
