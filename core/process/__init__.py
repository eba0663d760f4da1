"""What users write `process` classes with: state and timers by key, and what rows go out.

    from headrace.core.process import Out, Process, timer, value

    class Fraud(Process):
        last_small = value("boolean", ttl="1m")
        forget = timer()

        def on_row(self, row, state: "Fraud", out: Out) -> None:
            if state.last_small and row.amount > 500:
                out(card=row.card, why="a large payment behind a small one")
            state.last_small = row.amount < 1

State belongs to the key of the row that is handled: `state` has what the class declares, and
nothing of it is kept in `self`. `headrace.core.testing` runs such a class over literal rows.
"""

from headrace.core.process.columns import AllOut, AllState
from headrace.core.process.declared import Declared, Kind
from headrace.core.process.declaring import State, list_of, map_of, shared, timer, value
from headrace.core.process.process import Out, Process, Row

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
