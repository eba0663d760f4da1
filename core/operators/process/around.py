"""The context of a user class in an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.core.operators.map import FailedRow
from headrace.core.operators.operator import Output
from headrace.core.operators.process.outs import MAIN_OUTPUT
from headrace.core.plan import nodes
from headrace.core.user_code import UserCode


@dataclass(frozen=True, slots=True)
class UserCodeContext:
    """The step, code and outputs of a user class, in addition to its KeyedContext."""

    step: str
    code: UserCode
    on_failure: Callable[[list[FailedRow]], Iterator[Output]] | None
    """Takes the rows on which the class fails; without it they fail the job."""
    ordered_streams: frozenset[str]
    """The streams whose rows must carry their position in the row order."""

    def name_streams(self, body: nodes.ProcessBody, main: str) -> dict[str, str]:
        """Return the stream names of the outputs, by output name."""
        return {MAIN_OUTPUT: main} | {name: f"{self.step}.{name}" for name, _ in body.outputs}
