"""The code that user_windows.yaml names: an aggregate, a function, an evictor, a trigger."""

from collections.abc import Sequence
from typing import Any, ClassVar

import polars as pl

from headrace import Aggregate, Trigger, Window


class P99(Aggregate[dict[str, pl.Series]]):
    """The 99th percentile of prices; its state holds all prices."""

    state: ClassVar = {"prices": "array<bigint>"}

    def partial(self, prices: pl.Series) -> dict[str, pl.Series]:
        return {"prices": prices}

    def merge(self, partials: Sequence[dict[str, pl.Series]]) -> dict[str, pl.Series]:
        return {"prices": pl.concat([each["prices"] for each in partials])}

    def finish(self, partial: dict[str, pl.Series]) -> float | None:
        return partial["prices"].quantile(0.99)


def jumps(bids: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return the bids of a window that are more than twice the previous bid."""
    risen = pl.col("price") > 2 * pl.col("price").shift()
    after = (pl.col("date_time") - window.start).dt.total_milliseconds()
    return bids.select("price", after_ms=after, risen=risen).filter("risen").drop("risen")


def without_doubles(bids: pl.DataFrame) -> pl.DataFrame:
    """Return the last bid of each bidder."""
    return bids.unique("bidder", keep="last", maintain_order=True)


class EveryBigBid(Trigger):
    """Fires when a bid is above 9 million and above all earlier bids of the window."""

    state: ClassVar = {"highest": "bigint"}

    def on_row(self, bid: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        if bid["price"] <= max(state["highest"] or 0, 9_000_000):
            return False
        state["highest"] = bid["price"]
        return True
