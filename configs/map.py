"""The functions that map.yaml names: `score` for a batch of rows, `label` for a single row."""

from typing import Any

import polars as pl


def score(bids: pl.DataFrame) -> pl.DataFrame:
    """Return a score from 0 to 1 for each bid."""
    price = pl.col("price")
    return bids.select("auction", "price", score=(price / (price + 1000)).round(3))


def label(row: dict[str, Any]) -> dict[str, object]:
    """Return a label for the score; raise ValueError for a bid that is too low to have one."""
    if row["price"] < 200:
        raise ValueError("too low a bid")
    return {"auction": row["auction"], "label": "high" if row["score"] > 0.9 else "low"}
