"""The selling price of an auction for q6: known only when the auction closes."""

from __future__ import annotations

from datetime import datetime

from headrace import Out, Process, Row, timer, value


class Bid(Row):
    """A bid, with the columns of its auction that `Winning` needs."""

    id: int
    seller: int
    expires: datetime
    price: int


class Winning(Process):
    """Emits each sold auction with its highest bid, at the time when it closes."""

    seller = value("bigint")
    price = value("bigint", default=0)
    closes = timer()

    def on_row(self, bid: Bid, state: Winning, out: Out) -> None:
        """Store the highest bid, and set the timer to the end of the auction."""
        state.seller, state.closes = bid.seller, bid.expires
        state.price = max(bid.price, state.price)

    def on_timer(self, at: datetime, state: Winning, out: Out) -> None:
        """Emit the closed auction, and clear its state."""
        out(id=self.key, seller=state.seller, price=state.price)
        state.seller, state.price = None, 0
