"""Requests for checkpoints of which one is given up."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.checkpoint.pins import CheckpointPins
from headrace.core.job.requests import CheckpointRequests, RequestRejected


def test_a_postponed_request_is_served_and_pinned_by_the_next_checkpoint() -> None:
    async def request() -> None:
        pins = CheckpointPins()
        requests = CheckpointRequests(pins)
        first, second = requests.add(), requests.add()
        requests.assign_checkpoint(first, 1)
        requests.assign_checkpoint(second, 2)
        requests.postpone(1)
        assert set(pins.numbers) == {2}
        requests.complete(2)
        assert (await first, await second) == (2, 2)

    asyncio.run(request())


def test_a_postponed_request_fails_with_the_next_checkpoint() -> None:
    async def request() -> None:
        pins = CheckpointPins()
        requests = CheckpointRequests(pins)
        future = requests.add()
        requests.assign_checkpoint(future, 1)
        requests.postpone(1)
        requests.fail(2, "the disk is full")
        with pytest.raises(RequestRejected, match="checkpoint 2 failed: the disk is full"):
            await future
        assert not pins.numbers

    asyncio.run(request())
