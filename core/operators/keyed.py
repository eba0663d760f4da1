"""The operator of each keyed operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.operators.operator import Operator
from headrace.core.plan import nodes
from headrace.core.state import StepState


@dataclass(frozen=True, slots=True)
class Place:
    """Where a keyed operator stands: what it is given beside its operation."""

    stream: str
    """The name under which its rows go out."""
    state: StepState
    now_us: Callable[[], int]
    ordered: bool
    """Whether its rows must carry their place in the order of all rows."""
    late: bool
    """Whether somebody reads the stream of late rows, if there is one."""


def keyed_operator(operation: nodes.Keyed, place: Place) -> Operator:
    """The operator that does this, over the state of its subtask."""
    raise NotImplementedError(operation)
