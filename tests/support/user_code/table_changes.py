"""Users' code that gets the changes of a table: what it emits adds up to sums over the table."""

from __future__ import annotations

from typing import Any

import polars as pl

from headrace import Process, value


def signed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a fact about a change: a count and a value to add."""
    sign = 1 if row["_change"] == "insert" else -1
    return {"s": row["s"], "n": sign, "total": sign * (row["w"] or 0)}


def signed_batch(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a fact about each change."""
    sign = pl.when(pl.col("_change") == "insert").then(1).otherwise(-1).cast(pl.Int64)
    return rows.select("s", sign.alias("n"), (sign * pl.col("w").fill_null(0)).alias("total"))


class Signed(Process):
    """Emits how much each change adds to the count and the sum of its key."""

    n = value("bigint", default=0)
    total = value("bigint", default=0)

    def on_row(self, row: Any, state: Any, out: Any) -> None:
        sign = 1 if row._change == "insert" else -1
        state.n += sign
        state.total += sign * (row.w or 0)
        out(self.key, sign, sign * (row.w or 0))


class SignedBatches(Process):
    """Emits the same, for batches of rows."""

    def on_rows(self, rows: pl.DataFrame, state: Any, out: Any) -> None:
        sign = pl.when(pl.col("_change") == "insert").then(1).otherwise(-1).cast(pl.Int64)
        out(rows.select("g", sign.alias("n"), (sign * pl.col("v").fill_null(0)).alias("total")))
