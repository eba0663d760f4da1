"""Where a keyed operator stands: what it is given beside its operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.state import StepState


@dataclass(frozen=True, slots=True)
class Place:
    """A keyed operator's surroundings."""

    stream: str
    """The name under which its rows go out."""
    state: StepState
    now_us: Callable[[], int]
    ordered: bool
    """Whether its rows must carry their place in the order of all rows."""
    late: bool
    """Whether somebody reads the stream of late rows, if there is one."""
