"""The classes that process.yaml, connect.yaml and broadcast.yaml name."""

from datetime import datetime, timedelta

import polars as pl

from headrace import (
    AllOut,
    AllState,
    Out,
    Process,
    Row,
    map_of,
    shared,
    timer,
    value,
)


class Bid(Row):
    """The columns of a bid that `Suspicious` reads."""

    auction: int
    bidder: int
    price: int


class Auction(Row):
    """An auction, without columns: its id is the key."""


class FirstBid(Row):
    """The columns of a bid that `Opened` reads."""

    auction: int
    price: int


class Suspicious(Process):
    """Emits bidders who raise their own bid on an auction more than 10,000-fold within 5 seconds.

    After two seconds without a bid, it also emits the bidder's number of bids to `quiet`.
    """

    tried = map_of("bigint", "bigint", ttl="5s")
    bids = value("bigint", default=0)
    over = timer()

    def on_row(self, row: Bid, state: "Suspicious", out: Out) -> None:
        least = state.tried.get(row.auction)
        if least and row.price > 10_000 * least:
            out(bidder=row.bidder, auction=row.auction, factor=row.price // least)
        if least is None or row.price < least:
            state.tried[row.auction] = row.price
        state.bids += 1
        state.over = self.event_time + timedelta(seconds=2)

    def on_timer(self, at: datetime, state: "Suspicious", out: Out) -> None:
        out.quiet(bidder=self.key, bids=state.bids, since=at)
        state.bids = 0


class Opened(Process):
    """Emits the wait for the first bid of each auction; null after 100 ms without a bid."""

    opened = value("timestamp")
    waiting = timer()

    def on_left(self, auction: Auction, state: "Opened", out: Out) -> None:
        state.opened = self.event_time
        state.waiting = self.event_time + timedelta(milliseconds=100)

    def on_right(self, bid: FirstBid, state: "Opened", out: Out) -> None:
        if state.opened is not None:
            waited = (self.event_time - state.opened) // timedelta(milliseconds=1)
            out(auction=bid.auction, price=bid.price, waited_ms=waited)
            state.opened = state.waiting = None

    def on_timer(self, at: datetime, state: "Opened", out: Out) -> None:
        state.opened = None
        out(auction=self.key, price=None, waited_ms=None)


class Spent(Process):
    """Emits the total of all bids of an auction once it is above 100 million; takes batches."""

    total = value("bigint", default=0)

    def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> None:
        total = rows.select(pl.col("price").cum_sum().over("auction")).to_series()
        total += state.total.get()
        state.total.set(total)
        dear = total > 100_000_000
        out(rows.select("auction", total=total).filter(dear), of=dear)


class Limit(Row):
    """The limit of a channel."""

    channel: str
    most: int


class ChannelBid(Row):
    """The columns of a bid that `Over` reads."""

    channel: str
    price: int


class Over(Process):
    """Emits bidders whose bids exceed a limit of a channel, from the third time on."""

    limits = shared(map_of("string", "bigint"))
    times = value("bigint", default=0, ttl="1h")

    def on_rule(self, limit: Limit, state: "Over") -> None:
        state.limits[limit.channel] = limit.most

    def on_row(self, bid: ChannelBid, state: "Over", out: Out) -> None:
        most = state.limits.get(bid.channel)
        if most is None or bid.price <= most:
            return
        state.times += 1
        if state.times >= 3:
            out(bidder=self.key, times=state.times, price=bid.price, most=most)
