"""The functions that map.yaml names: one over a batch of rows, one over a single row."""

from typing import Any

import polars as pl


def score(bids: pl.DataFrame) -> pl.DataFrame:
    """A score from 0 to 1 for each bid."""
    price = pl.col("price")
    return bids.select("auction", "price", score=(price / (price + 1000)).round(3))


def label(row: dict[str, Any]) -> dict[str, object]:
    """A word for the score; a bid too low to count has none, and fails."""
    if row["price"] < 200:
        raise ValueError("too low a bid")
    return {"auction": row["auction"], "label": "high" if row["score"] > 0.9 else "low"}
