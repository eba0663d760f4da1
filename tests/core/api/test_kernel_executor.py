"""The calls that run in a thread: many rows, few but slow rows, and work announced as long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from headrace.core.api.kernel_executor import LARGE_KERNEL_ROWS, CostModel, KernelExecutor
from headrace.core.dataflow.operator_task import OperatorTask, TaskOutput
from headrace.core.operators.operator import (
    OFFLOAD_ROWS,
    OperatorChain,
    Output,
    StatelessOperator,
    request_offload,
)


@pytest.mark.parametrize(
    ("calls", "long_from"),
    [
        ((), LARGE_KERNEL_ROWS),
        (((1, 0.0009),), LARGE_KERNEL_ROWS),
        (((100_000, 0.001),), LARGE_KERNEL_ROWS),
        (((10, 0.101),), 1),
        (((100, 0.011),), 10),
        (((10, 0.101), (1, 0.0001)), 10),
        (((10, 0.101), (1000, 0.0001)), LARGE_KERNEL_ROWS),
        (((0, 5.0),), LARGE_KERNEL_ROWS),
    ],
)
def test_a_call_is_long_by_its_rows_or_by_what_others_took(
    calls: tuple[tuple[int, float], ...], long_from: int
) -> None:
    pace = CostModel()
    for rows, seconds in calls:
        pace.learn(rows, seconds)
    assert pace.is_long(long_from)
    assert not pace.is_long(long_from - 1)


class Saying(StatelessOperator):
    """Announces how many earlier rows it works on, and records the threads it runs in."""

    def __init__(self) -> None:
        self.owed = 0
        self.before: list[int] = []
        self.rows_after: list[int] = []

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Return the rows unchanged."""
        self.before.append(threading.get_ident())
        yield from request_offload(self.owed)
        self.rows_after.append(threading.get_ident())
        yield "s", frame


def test_what_an_operator_says_takes_long_is_done_in_a_thread_and_the_next_call_is_not() -> None:
    first, second, loop = Saying(), Saying(), threading.get_ident()
    foot = TaskOutput({}, None)
    row = pl.DataFrame({"x": [1]})

    async def three(bench: KernelExecutor) -> None:
        flow = OperatorTask(OperatorChain([("r", first), ("s", second)]), foot, bench)
        for second.owed in (OFFLOAD_ROWS - 1, OFFLOAD_ROWS, 0):
            await flow.process_rows("r", row)

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(three(KernelExecutor(threads)))
    assert first.rows_after == [loop, loop, loop]
    assert second.before == [loop, loop, loop]
    assert [thread == loop for thread in second.rows_after] == [True, False, True]
    assert foot.rows_out == {"s": 3}
