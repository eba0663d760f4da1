"""From a join to its operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from headrace.core.operators.operator import Operator, Output
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOf, Changing, SameWindow, Within
from headrace.core.plan.windows import Session

if TYPE_CHECKING:
    import polars as pl


class Joining(Operator, Protocol):
    """An operator of two inputs: `process` takes the rows of the left one."""

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Rows of the right input have come."""
        ...


def join_operator(operation: nodes.Join, place: Place) -> Joining:
    """The operator that does this, over the state of its subtask."""
    match operation.matching:
        case Within():
            from headrace.core.operators.joins.within import WithinJoin

            return WithinJoin(operation, operation.matching, place)
        case SameWindow(window) if isinstance(window.shape, Session):
            from headrace.core.operators.joins.sessions import SessionJoin

            return SessionJoin(operation, window, place)
        case SameWindow(window):
            from headrace.core.operators.joins.windows import WindowJoin

            return WindowJoin(operation, window, place)
        case AsOf():
            from headrace.core.operators.joins.as_of import AsOfJoin

            return AsOfJoin(operation, operation.matching, place)
        case Changing():
            from headrace.core.operators.joins.changing import ChangingJoin

            return ChangingJoin(operation, operation.matching, place)
    raise AssertionError(operation)
