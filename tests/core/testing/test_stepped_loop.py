"""A loop under a driver: what happens before it rests, and when its clock moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from headrace.core.testing.stepped_loop import SteppedLoop


def drive(loop: SteppedLoop, driver: Callable[[], Coroutine[None, None, None]]) -> None:
    try:
        loop.run_until_complete(driver())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.free_time()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def test_time_stands_still_until_the_driver_moves_it() -> None:
    loop, woken = SteppedLoop(0, wall_s=1000.0), list[float]()

    async def sleep(seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            woken.append(loop.wall_s)

    async def driver() -> None:
        sleeper = asyncio.ensure_future(sleep(60))
        for _ in range(3):
            await loop.rest()
        assert (woken, loop.wall_s) == ([], 1000.0)
        await loop.advance(59)
        assert (woken, loop.wall_s) == ([], 1059.0)
        await loop.advance(121)
        assert (woken, loop.wall_s) == ([1060.0, 1120.0, 1180.0], 1180.0)
        sleeper.cancel()

    drive(loop, driver)


def test_all_that_can_run_has_run_when_the_loop_rests() -> None:
    loop, seen = SteppedLoop(0), list[int]()

    async def count() -> None:
        for number in range(100):
            await asyncio.sleep(0)
            seen.append(number)

    async def driver() -> None:
        counting = asyncio.ensure_future(count())
        await loop.rest()
        assert counting.done() and len(seen) == 100

    drive(loop, driver)


def test_short_timers_fire_before_a_rest_and_do_not_move_the_clock() -> None:
    loop, seen = SteppedLoop(0, wall_s=5.0), list[str]()

    async def driver() -> None:
        loop.call_later(0.001, seen.append, "short")
        loop.call_later(0.1, seen.append, "long")
        await loop.rest()
        assert (seen, loop.wall_s, loop.now_us()) == (["short"], 5.0, 5_000_000)
        await loop.advance(0.1)
        assert seen == ["short", "long"]

    drive(loop, driver)


def test_a_timer_that_repeats_at_once_does_not_keep_the_loop_from_its_rest() -> None:
    loop = SteppedLoop(0)

    def repeat() -> None:
        loop.call_later(0.0005, repeat)

    async def driver() -> None:
        repeat()
        await loop.rest()

    drive(loop, driver)


def test_free_time_jumps_from_timer_to_timer() -> None:
    loop = SteppedLoop(0, wall_s=5.0)

    async def driver() -> None:
        await loop.rest()
        loop.free_time()
        await asyncio.sleep(3600)
        assert loop.wall_s == 3605.0

    drive(loop, driver)
