"""The price at which an auction is sold, for q6: known when it closes, and not before."""

from __future__ import annotations

from datetime import datetime

from headrace.core.process import Out, Process, Row, timer, value


class Bid(Row):
    """A bid, with what is needed of its auction."""

    id: int
    seller: int
    expires: datetime
    price: int


class Winning(Process):
    """Puts out each auction that was sold, at the time when it closes."""

    seller = value("bigint")
    price = value("bigint", default=0)
    closes = timer()

    def on_row(self, bid: Bid, state: Winning, out: Out) -> None:
        """A bid while the auction is open."""
        state.seller, state.closes = bid.seller, bid.expires
        state.price = max(bid.price, state.price)

    def on_timer(self, at: datetime, state: Winning, out: Out) -> None:
        """It closes, and is forgotten."""
        out(id=self.key, seller=state.seller, price=state.price)
        state.seller, state.price = None, 0
