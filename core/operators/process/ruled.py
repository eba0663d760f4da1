"""The operator of `process` with a `broadcast`: keyed rows, and rules that every subtask gets.

Rules are handled in one order of time with the rows, and write the state shared by all keys. A late
rule is handled with the next rows instead of being left out: subtasks would leave out different
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

from headrace.core.blame import attribute_errors_to
from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.operators.operator import Output
from headrace.core.operators.process.held import BroadcastRowBuffer
from headrace.core.operators.process.rows import Call
from headrace.core.operators.process.shared import SharedState
from headrace.core.operators.process.sides import TwoInputProcessOperator
from headrace.core.plan.states import HELD_RIGHT_ROWS
from headrace.core.process.declared import Declared

if TYPE_CHECKING:
    import polars as pl

RIGHT_SIDE = 1


class BroadcastProcessOperator(TwoInputProcessOperator):
    """The operator of a class with `on_rule`; `process_right` takes the rules."""

    method = "on_row"
    method_right = "on_rule"
    _shared_state: SharedState

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rules."""
        if not frame.height:
            return
        with attribute_errors_to(self._user_context.step):
            if self._right_buffer is None:
                yield from self._handle_rows((None, self._project_right(frame)), None)
            else:
                self._right_buffer.add(self._project_right(frame))

    def flush_to_state(self) -> None:
        """Write rules and shared state to the state, and the rest."""
        with attribute_errors_to(self._user_context.step):
            self._shared_state.flush_to_state()
        super().flush_to_state()

    @property
    def shared_state(self) -> Any:
        """The shared state, for test harnesses."""
        return self._shared_state.cell

    def _build_shared_properties(self, states: Mapping[str, Declared]) -> Mapping[str, property]:
        shared = {name: declared for name, declared in states.items() if declared.shared}
        state, shown = self._context.state, self._user_context.code.display_name
        self._shared_state = SharedState(shared, self._call_context, state, shown)
        return self._shared_state.properties

    def _adapt_right_call(self, call: Any) -> Call:
        def on_rule(rule: Any, cell: Any, out: Any) -> object:
            found: object = call(rule, cell)
            return found

        return on_rule

    def _build_right_buffer(self) -> BroadcastRowBuffer:
        columns = (*self._right_schema.names, EVENT_TIME, ORDER)
        return BroadcastRowBuffer(HELD_RIGHT_ROWS, columns, self._context.state)

    def _find_side_cells(self, side: int, rows: pl.DataFrame) -> Iterable[Any]:
        if side == RIGHT_SIDE:
            return repeat(self._shared_state.begin_write(), rows.height)
        return super()._find_side_cells(side, rows)
