"""The generated cell class of `process` against the plain one that its tests compare it with.

An operation reads and writes a value, a value with a TTL and a timer of a cell. The figure is the
CPU of an operation with the generated class; the ratio is the plain one's time over it.
`python -m benchmarks.cell_class`
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime

from benchmarks.timing import cpu_us
from headrace.core.operators.process.cell_class import CellFactory
from headrace.core.operators.process.timers import TimerHeap
from headrace.core.process.declarations import Kind, parse_declaration
from tests.support.plain_cells import PlainCell

OPERATIONS = 20_000
STATES = {
    "total": parse_declaration(Kind.VALUE, ("bigint",), default=0),
    "recent": parse_declaration(Kind.VALUE, ("bigint",), ttl="1h", default=0),
    "due": parse_declaration(Kind.TIMER, ()),
}
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Clocks:
    """Clocks that stand still."""

    def get_event_us(self) -> int:
        return 0

    now_us = get_event_us


def main() -> None:
    """Print the figure, and the ratio on stderr."""
    generated, plain = cpu_us(use_generated(), OPERATIONS), cpu_us(use_plain(), OPERATIONS)
    print(f"{generated:.2f} us an operation")
    print(f"  {plain / generated:.1f} times the speed of the plain class", file=sys.stderr)


def use_generated() -> Callable[[], None]:
    """Return the work with the generated class."""
    cell = CellFactory(STATES, Clocks(), TimerHeap(["due"]), TimerHeap([])).create("a")

    def work() -> None:
        for number in range(OPERATIONS):
            cell.total = cell.total + number
            cell.recent = cell.recent + number
            cell.due = cell.due or AT

    return work


def use_plain() -> Callable[[], None]:
    """Return the same work with the plain class."""
    clocks = Clocks()
    cell = PlainCell(STATES, clocks.get_event_us, clocks.now_us)
    read, write = cell.read, cell.write

    def work() -> None:
        for number in range(OPERATIONS):
            write("total", read("total") + number)
            write("recent", read("recent") + number)
            write("due", read("due") or AT)

    return work


if __name__ == "__main__":
    main()
