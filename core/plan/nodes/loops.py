"""The head of a loop: the step that new rows and the rows that come back pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.typed import TypedExpression
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.queries import TypedQuery

ROUNDS_COLUMN = "rounds"
"""The column with the number of times that a row has come back."""


BEFORE_COLUMN = "before"
"""The column with the row of the same key in the round before, for the `until` of a table."""


@dataclass(frozen=True, slots=True)
class DeltaInputs:
    """The streams with which a delta iteration begins."""

    solution: str
    workset: str


@dataclass(frozen=True, slots=True)
class TableRounds:
    """The rounds of a loop over a table.

    The rows that come back are the table of the next round; in a delta iteration they replace rows
    of the solution by their key, and those that change it are the next work set.
    """

    count: int
    """The most rounds."""
    until: TypedQuery | None
    """The condition after which no further round begins, over the rows of a round; its result has
    one row."""
    key: tuple[str, ...]
    """The columns by which a row is found in the round before."""
    delta: DeltaInputs | None = None
    """The inputs of a delta iteration; None: each round computes the whole table."""
    sends_tables: bool = False
    """Whether the head sends the table or the work set of a round as a whole, and not its
    differences to that of the round before."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The head of a loop: a row for which `until` is true leaves, any other one goes round."""

    until: TypedExpression | None
    text: str
    """The text of `until`."""
    feedback: str
    """The stream whose rows come back. It is no input of the step: the plan has no circles."""
    has_rounds: bool
    """Whether rows have the column `rounds`, which it counts."""
    max_rounds: int | None
    """The number of times that a row may come back; None: any."""
    max_bytes: int
    """The size of the rows that a subtask may hold after they came back."""
    passes_watermarks: bool
    """Whether watermarks pass at once, and not only when the loop is empty."""
    table: TableRounds | None = None
    """The rounds of a loop over a table; None: rows go round one by one."""

    def list_inner_streams(self, head: str) -> tuple[str, ...]:
        """Return the streams that the head sends into the loop."""
        if self.table is not None and self.table.delta is not None:
            return name_delta_streams(head)
        return (name_loop_stream(head),)


def name_delta_streams(step: str) -> tuple[str, str]:
    """Return the streams of the work set and of the solution of a delta iteration.

    >>> name_delta_streams("best")
    ('best.workset', 'best.solution')
    """
    return f"{step}.workset", f"{step}.solution"


def name_loop_stream(step: str) -> str:
    """Return the stream of the rows that go round.

    >>> name_loop_stream("tries")
    'tries.loop'
    """
    return f"{step}.loop"


def name_over_stream(step: str) -> str:
    """Return the stream of the rows that have gone round too often."""
    return f"{step}.over"
