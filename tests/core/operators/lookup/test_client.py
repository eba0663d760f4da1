"""The order of calls waiting for a slot, and that no slot is lost."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress

import pytest

from headrace.core.operators.lookup.client import CallLimiter
from headrace.core.testing.simulated_loop import SimulatedLoop


def simulated(life: object, seed: int = 1) -> None:
    """Run a coroutine in virtual time."""
    assert asyncio.iscoroutine(life)
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed)) as runner:
        runner.run(life)


def test_retries_precede_first_attempts() -> None:
    went: list[str] = []

    async def call(room: CallLimiter, name: str, *, is_retry: bool) -> None:
        async with room.hold_slot(is_retry=is_retry):
            went.append(name)
            await asyncio.sleep(1)

    async def life() -> None:
        room = CallLimiter(1)
        async with asyncio.TaskGroup() as group:
            for name, is_retry in (("a", False), ("b", False), ("c", True), ("d", True)):
                group.create_task(call(room, name, is_retry=is_retry))
                await asyncio.sleep(0.1)

    simulated(life())
    assert went == ["a", "c", "d", "b"]


@pytest.mark.parametrize("seed", range(30))
def test_no_slot_is_lost_or_taken_twice_whatever_is_cancelled(seed: int) -> None:
    drawn = random.Random(seed)
    inside = 0

    async def call(room: CallLimiter) -> None:
        nonlocal inside
        async with room.hold_slot(is_retry=drawn.random() < 0.5):
            inside += 1
            assert inside <= 3
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(drawn.choice([0, 0.5, 1]))
            inside -= 1

    async def life() -> None:
        room = CallLimiter(3)
        calls = [asyncio.create_task(call(room)) for _ in range(20)]
        for each in drawn.sample(calls, 8):
            await asyncio.sleep(drawn.choice([0, 0.5]))
            each.cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(each is None or isinstance(each, asyncio.CancelledError) for each in done)
        async with asyncio.timeout(1), AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(room.hold_slot(is_retry=False))

    simulated(life(), seed)
