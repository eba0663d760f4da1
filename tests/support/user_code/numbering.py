"""A user's function that never returns the same value twice."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl

NUMBERS = itertools.count()


def numbered(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return a row with a new number; none for some rows."""
    if row["v"] is not None and row["v"] > 5:
        return None
    return {"k": row["k"], "s": row["s"], "n": next(NUMBERS)}


def numbered_batch(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each row with a new number."""
    numbers = pl.Series("n", [next(NUMBERS) for _ in range(rows.height)], dtype=pl.Int64)
    return rows.select("k", "s", numbers)


def other_key(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with another key."""
    return {"k": row["k"] + 1, "s": row["s"], "n": 1}


def twice(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row twice."""
    return [{"k": row["k"], "s": row["s"], "n": 1}] * 2
