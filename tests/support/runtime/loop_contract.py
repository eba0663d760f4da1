"""The contract of the simulated loops, for any Python: they reach into asyncio, which may change.

`python loop_contract.py` needs only the standard library and `headrace` on the import path. It ends
with exit status 0 if the contract holds, and else with the assertion that does not.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any

from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.testing.stepped_loop import ProcessKilled, SteppedLoop


def run(main: Coroutine[Any, Any, Any], seed: int = 0, slow_share: float = 0.0) -> Any:
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed, slow_share)) as runner:
        return runner.run(main)


async def list_order(count: int) -> list[int]:
    """Return the order in which tasks that are ready at the same time take their steps."""
    order = list[int]()

    async def step(number: int) -> None:
        await asyncio.sleep(0)
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(step(number))
    return order


def check_order_is_drawn_from_the_seed() -> None:
    orders = [run(list_order(8), seed) for seed in range(10)]
    assert all(sorted(order) == [*range(8)] for order in orders)
    assert len({*map(tuple, orders)}) > 5, "the steps of tasks are not recognised"
    assert orders == [run(list_order(8), seed) for seed in range(10)]


def check_time_is_virtual() -> None:
    async def pass_days() -> float:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(10 * 86_400)
        try:
            async with asyncio.timeout(3600):
                await loop.create_future()
        except TimeoutError:
            return loop.time()
        raise AssertionError("no timeout")

    began_s = time.monotonic()
    assert run(pass_days()) == 10 * 86_400 + 3600
    assert time.monotonic() - began_s < 3600, "the loop waits in real time"


def check_cancelled_timers_are_forgotten() -> None:
    async def cancel() -> float:
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(seconds, print) for seconds in range(1, 500)]
        for timer in timers:
            timer.cancel()
        await asyncio.sleep(1000)
        return loop.time()

    assert run(cancel()) == 1000


def check_slow_tasks_are_delayed() -> None:
    async def measure() -> float:
        await list_order(30)
        return asyncio.get_running_loop().time()

    assert run(measure()) == 0.0
    assert any(run(measure(), seed, slow_share=0.5) > 0.0 for seed in range(5))


def check_nothing_waits_in_real_time() -> None:
    """Also when all steps that could run are delayed."""
    waits = list[float | None]()

    class Selector(selectors.SelectSelector):
        def select(self, timeout: float | None = None) -> Any:
            waits.append(timeout)
            return super().select(timeout)

    for seed in range(5):
        loop = SimulatedLoop(seed, slow_share=1.0)
        loop._selector.close()
        loop._selector = Selector()
        try:
            loop.run_until_complete(list_order(3))
        finally:
            loop.close()
    assert set(waits) == {0}, waits


def check_a_deadlock_is_told() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    loop = SimulatedLoop(0)
    try:
        loop.run_until_complete(wait())
    except RuntimeError as error:
        assert "nobody will ever wake them" in str(error)
    else:
        raise AssertionError("no error")
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def check_the_driver_moves_time() -> None:
    loop, woken = SteppedLoop(0, wall_s=100.0), list[float]()

    async def tick() -> None:
        while True:
            await asyncio.sleep(60)
            woken.append(loop.wall_s)

    async def drive() -> None:
        ticking = asyncio.ensure_future(tick())
        await loop.rest()
        assert (woken, loop.wall_s) == ([], 100.0)
        await loop.advance(150)
        assert (woken, loop.wall_s) == ([160.0, 220.0], 250.0)
        loop.free_time()
        await asyncio.sleep(60)
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
        assert loop.wall_s == 310.0

    loop.run_until_complete(drive())
    loop.close()


def check_the_process_is_killed_in_a_turn() -> None:
    for turns in range(1, 30):
        loop = SteppedLoop(turns)

        async def drive(loop: SteppedLoop = loop, turns: int = turns) -> None:
            loop.kill_after(turns)
            for _ in range(100):
                await asyncio.sleep(0)

        try:
            loop.run_until_complete(drive())
        except ProcessKilled:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
        else:
            raise AssertionError(f"it was not killed after {turns} turns")


if __name__ == "__main__":
    check_order_is_drawn_from_the_seed()
    check_time_is_virtual()
    check_cancelled_timers_are_forgotten()
    check_slow_tasks_are_delayed()
    check_nothing_waits_in_real_time()
    check_a_deadlock_is_told()
    check_the_driver_moves_time()
    check_the_process_is_killed_in_a_turn()
