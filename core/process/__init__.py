"""The API for `process` classes: state and timers per key, and the output of rows.

    from headrace.core.process import Out, Process, timer, value

    class Fraud(Process):
        last_small = value("boolean", ttl="1m")
        forget = timer()

        def on_row(self, row, state: "Fraud", out: Out) -> None:
            if state.last_small and row.amount > 500:
                out(card=row.card, why="a large payment after a small one")
            state.last_small = row.amount < 1

State belongs to the key of the current row: `state` has the attributes that the class declares, and
nothing is stored in `self`. `headrace.core.testing` runs such a class over literal rows.

Tests: tests/core/testing and tests/core/operators/process/test_state_values.py.
"""

from headrace.core.process.declarations import Declared, Kind
from headrace.core.process.descriptors import State, list_of, map_of, shared, timer, value
from headrace.core.process.process import AllOut, AllState, Out, Process, Row

__all__ = [
    "AllOut",
    "AllState",
    "Declared",
    "Kind",
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
