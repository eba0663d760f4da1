"""Output edges: steps that read one stream by the same key share its partitions."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence

import polars as pl
import pytest

from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.output_edges import OutputEdge, share_partitioners
from headrace.core.expressions import type_expression
from headrace.core.plan.nodes import ComputedColumn, Exchange
from headrace.core.types.data_types import BIGINT, STRING, Field, Schema
from headrace.core.types.elements import Batch

SCHEMA = Schema((Field("k", BIGINT), Field("s", STRING)))
READERS = 3


def rows(count: int) -> pl.DataFrame:
    return pl.DataFrame({"k": range(count), "s": [str(at % 7) for at in range(count)]})


def outlet(
    *key: str, exchange: Exchange = "hash", readers: int = READERS, groups: int = 128
) -> OutputEdge:
    channels = [Channel(ChannelBounds(rows=1 << 30, bytes=1 << 40)) for _ in range(readers)]
    computed = tuple(
        ComputedColumn(f"key{at}", type_expression(text, SCHEMA)) for at, text in enumerate(key)
    )
    return OutputEdge(exchange, channels, 0, computed, groups)


def sent(outlets: Sequence[OutputEdge], *frames: pl.DataFrame) -> None:
    async def send() -> None:
        for frame in frames:
            for each in outlets:
                await each.send_rows(frame)

    asyncio.run(send())


def got(outlet: OutputEdge) -> list[list[pl.DataFrame]]:
    """Return the received rows of each reader."""
    return [
        [element.frame for element in channel.take() if isinstance(element, Batch)]
        for channel in outlet.channels
        if isinstance(channel, Channel)
    ]


@pytest.mark.parametrize("count", [1, 50, 5000])
def test_outlets_of_one_key_hand_on_the_same_parts(count: int) -> None:
    outlets = [outlet("k"), outlet("s"), outlet("k")]
    share_partitioners(outlets)
    alone = [outlet("k"), outlet("s")]
    frame = rows(count)
    sent((*outlets, *alone), frame)
    first, second, third = (got(each) for each in outlets)
    assert all(a is b for x, y in zip(first, third, strict=True) for a, b in zip(x, y, strict=True))
    for mine, other in zip((first, second), map(got, alone), strict=True):
        for some, others in zip(mine, other, strict=True):
            assert all(a.equals(b) for a, b in zip(some, others, strict=True))
    assert sum(part.height for parts in first for part in parts) == count


def test_each_frame_is_partitioned_by_itself() -> None:
    outlets = [outlet("k"), outlet("k")]
    share_partitioners(outlets)
    sent(outlets, rows(10), rows(90))
    for each in outlets:
        (one, two, three) = got(each)
        assert (
            pl.concat([*one, *two, *three])
            .sort("k")
            .equals(pl.concat([rows(10), rows(90)]).sort("k"))
        )


@pytest.mark.parametrize(
    "other",
    [
        outlet("s"),
        outlet("k", "s"),
        outlet("k + 1"),
        outlet("k", readers=2),
        outlet("k", groups=64),
        outlet("k", exchange="broadcast"),
        outlet("k", exchange="rebalance"),
        outlet("k", readers=1),
    ],
)
def test_what_is_divided_in_another_way_is_not_shared(other: OutputEdge) -> None:
    one = outlet("k")
    share_partitioners([one, other])
    assert one.partitioner is not other.partitioner


def test_a_frame_is_released_when_all_edges_have_it() -> None:
    outlets = [outlet("k"), outlet("k")]
    share_partitioners(outlets)
    frame = rows(10)
    gone = weakref.ref(frame)
    sent(outlets, frame)
    del frame
    assert gone() is None
