"""The API for `process` classes: state and timers per key, and the output of rows.

    from headrace import Out, Process, timer, value

    class Fraud(Process):
        last_small = value("boolean", ttl="1m")
        forget = timer()

        def on_row(self, row, state: "Fraud", out: Out) -> None:
            if state.last_small and row.amount > 500:
                out(card=row.card, why="a large payment after a small one")
            state.last_small = row.amount < 1

State belongs to the key of the current row: `state` has the attributes that the class declares, and
nothing is stored in `self`. `headrace.Trial` runs such a class over literal rows.

It is also the former path of the names that user code now imports from `headrace`.

Tests: tests/core/testing and tests/core/operators/process/test_state_values.py.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.core.process.descriptors import State, list_of, map_of, shared, timer, value
    from headrace.core.process.process import AllOut, AllState, Out, Process, Row

__all__ = [
    "AllOut",
    "AllState",
    "Out",
    "Process",
    "Row",
    "State",
    "list_of",
    "map_of",
    "shared",
    "timer",
    "value",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from headrace.core.errors.old_imports import import_moved_name

        return import_moved_name(__name__, name)
