"""The operator of `process` with a `broadcast`: keyed rows, and rules that every subtask gets.

Rules are handled in one order of time with the rows, and write the state shared by all keys. A late
rule is handled with the next rows instead of being left out: subtasks would leave out different
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

from headrace.core.blame import blamed
from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.operators.operator import Output
from headrace.core.operators.process.held import HeldByAll
from headrace.core.operators.process.rows import Call
from headrace.core.operators.process.shared import Shared
from headrace.core.operators.process.sides import ProcessingTwo
from headrace.core.plan.states import HELD_RIGHT
from headrace.core.process.declared import Declared

if TYPE_CHECKING:
    import polars as pl

RIGHT = 1


class ProcessingRuled(ProcessingTwo):
    """The operator of a class with `on_rule`; `process_right` takes the rules."""

    method = "on_row"
    method_right = "on_rule"
    _shared_state: Shared

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rules."""
        if not frame.height:
            return
        with blamed(self._user_context.step):
            if self._right_buffer is None:
                yield from self._handled((None, self._keyed_right(frame)), None)
            else:
                self._right_buffer.hold(self._keyed_right(frame))

    def settle(self) -> None:
        """Write rules and shared state to the state, and the rest."""
        with blamed(self._user_context.step):
            self._shared_state.file()
        super().settle()

    @property
    def shared(self) -> Any:
        """The shared state, for test harnesses."""
        return self._shared_state.cell

    def _sharing(self, states: Mapping[str, Declared]) -> Mapping[str, property]:
        shared = {name: declared for name, declared in states.items() if declared.shared}
        state, shown = self._context.state, self._user_context.code.shown
        self._shared_state = Shared(shared, self._call_context, state, shown)
        return self._shared_state.seen

    def _calling(self, call: Any) -> Call:
        def on_rule(rule: Any, cell: Any, out: Any) -> object:
            found: object = call(rule, cell)
            return found

        return on_rule

    def _holding_right(self) -> HeldByAll:
        columns = (*self._right_schema.names, EVENT_TIME, ORDER)
        return HeldByAll(HELD_RIGHT, columns, self._context.state)

    def _cells_on(self, side: int, rows: pl.DataFrame) -> Iterable[Any]:
        if side == RIGHT:
            return repeat(self._shared_state.written(), rows.height)
        return super()._cells_on(side, rows)
