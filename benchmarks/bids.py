"""The bids that benchmarks read: 145 bytes of JSON each, the same in every run."""

from __future__ import annotations

import random

from headrace.core.types.data_types import BIGINT, STRING, TIMESTAMP, Field, Schema

CHANNELS = ("Google", "Apple", "Facebook", "Baidu", "channel-1042", "channel-77")
BASE_MS = 1_700_000_000_000

SCHEMA = Schema(
    (
        Field("auction", BIGINT),
        Field("bidder", BIGINT),
        Field("price", BIGINT),
        Field("channel", STRING),
        Field("url", STRING),
        Field("ts", TIMESTAMP),
    )
)


def bids(rows: int) -> bytes:
    """Generate this number of lines; `ts` is an epoch in milliseconds."""
    random.seed(42)
    return b"".join(_bid(row) for row in range(rows))


def _bid(row: int) -> bytes:
    auction = 1000 + int(random.random() ** 3 * 10_000)
    bidder = 1_000_000 + int(random.random() * 1_000_000)
    price = 100 + int(random.random() ** 3 * 1_000_000)
    channel = CHANNELS[int(random.random() * len(CHANNELS))]
    url = f"https://www.nexmark.com/googol/item{int(random.random() * 100)}.htm?query=1"
    ts = BASE_MS + row // 10 - int(random.random() * 1000)
    return (
        f'{{"auction":{auction},"bidder":{bidder},"price":{price},"channel":"{channel}",'
        f'"url":"{url}","ts":{ts}}}\n'
    ).encode()
