"""The head of a loop: the step that new rows and the rows that come back pass."""

from __future__ import annotations

from headrace.core.expressions.typed import TypedExpression
from headrace.core.types.lazy_dataclass import dataclass

ROUNDS_COLUMN = "rounds"
"""The column with the number of times that a row has come back."""


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


def name_loop_stream(step: str) -> str:
    """Return the stream of the rows that go round.

    >>> name_loop_stream("tries")
    'tries.loop'
    """
    return f"{step}.loop"


def name_over_stream(step: str) -> str:
    """Return the stream of the rows that have gone round too often."""
    return f"{step}.over"
