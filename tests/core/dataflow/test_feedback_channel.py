"""The channel back to the head of a loop: it takes every row, up to its limit."""

from __future__ import annotations

import asyncio

import polars as pl
import pytest

from headrace.core.api.failures import ConnectorError
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.feedback_channel import (
    CHANNELS_IN_MEMORY,
    FeedbackBudget,
    FeedbackChannel,
)
from headrace.core.errors.attribution import get_failed_part
from headrace.core.types.elements import (
    Barrier,
    Batch,
    EndOfStream,
    IdleMarker,
    LoopMarker,
    WatermarkElement,
)

BOUNDS = ChannelBounds(rows=100, bytes=1000)


def put_all(channel: FeedbackChannel, batches: int, rows: int = 100) -> pl.DataFrame:
    """Put batches of numbers; return all rows."""
    frames = [
        pl.DataFrame({"n": range(at * rows, at * rows + rows), "s": [str(at)] * rows})
        for at in range(batches)
    ]

    async def put() -> None:
        for frame in frames:
            await asyncio.wait_for(channel.put(Batch(frame)), 60)

    asyncio.run(put())
    return pl.concat(frames)


def take_all(channel: FeedbackChannel) -> pl.DataFrame:
    """Take all rows, and check that each batch is about a channelful."""
    frames = []
    while channel.has_elements:
        (batch,) = channel.take()
        assert isinstance(batch, Batch)
        assert batch.rows <= BOUNDS.rows
        frames.append(batch.frame)
    return pl.concat(frames)


def test_no_sender_waits_and_rows_stay_in_order() -> None:
    channel = FeedbackChannel(FeedbackBudget("tries", 1 << 20), BOUNDS)
    rows = put_all(channel, 50)
    assert channel.statistics().waiting_rows == 5000
    assert channel.statistics().waiting_bytes > CHANNELS_IN_MEMORY * BOUNDS.bytes
    assert channel.is_crowded
    assert take_all(channel).equals(rows)
    assert channel.statistics().waiting_rows == channel.statistics().waiting_bytes == 0
    assert not channel.is_crowded
    assert take_all_again(channel)
    channel.close()


def take_all_again(channel: FeedbackChannel) -> bool:
    """Whether the file is used again for rows that come later."""
    return take_all(channel).equals(rows) if (rows := put_all(channel, 20)).height else False


def test_more_rows_than_the_limit_fail_by_name() -> None:
    budget = FeedbackBudget("tries", 3000)
    one, other = FeedbackChannel(budget, BOUNDS), FeedbackChannel(budget, BOUNDS)
    put_all(one, 2)
    take_all(one)
    assert budget.bytes == 0
    put_all(one, 2)  # the limit is that of both channels together
    with pytest.raises(ConnectorError, match=r"more than its max_in_loop of 2\.9 KB") as failed:
        put_all(other, 2)
    assert get_failed_part(failed.value) == "tries"
    assert failed.value.is_final
    one.close()
    other.close()


def test_separators_keep_their_place_and_times_end_here() -> None:
    channel = FeedbackChannel(FeedbackBudget("tries", 1 << 20), BOUNDS)
    row = Batch(pl.DataFrame({"n": [1]}))
    for element in (row, WatermarkElement(5), row, Barrier(3), row, IdleMarker()):
        channel.append(element, 8)
    channel.append(LoopMarker("tries", 1))
    channel.append(EndOfStream())
    taken = []
    while channel.has_elements:
        taken += channel.take()
    rows = [each.rows if isinstance(each, Batch) else each for each in taken]
    assert rows == [2, Barrier(3), 1, LoopMarker("tries", 1), EndOfStream()]
