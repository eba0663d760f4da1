"""Where an operator of a user's class stands, beside its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.core.operators.map import FailedRow
from headrace.core.operators.operator import Output
from headrace.core.operators.process.outs import MAIN
from headrace.core.plan import nodes
from headrace.core.user_code import UserCode


@dataclass(frozen=True, slots=True)
class Around:
    """What an operator of a user's class is given beside its place."""

    step: str
    code: UserCode
    failed: Callable[[list[FailedRow]], Iterator[Output]] | None
    """Takes the rows on which the class fails; without it they fail the job."""
    ordered: frozenset[str]
    """The streams whose rows must carry their place in the order of all."""

    def streams(self, body: nodes.Body, main: str) -> dict[str, str]:
        """The names under which outputs go out, by their own."""
        return {MAIN: main} | {name: f"{self.step}.{name}" for name, _ in body.outputs}
