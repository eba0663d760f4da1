"""The functions of ends.yaml: one fails on some rows, one is slow when it is told to be."""

import os
import time
from typing import Any

import polars as pl


def checked(row: dict[str, Any]) -> dict[str, Any]:
    """The row, unless its number is a multiple of ten."""
    if row["id"] % 10 == 0:
        raise ValueError(f"{row['id']} is not wanted")
    return {"id": row["id"], "k": row["k"]}


def slowly(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows as they are, after a while."""
    time.sleep(rows.height * float(os.environ.get("HEADRACE_TEST_SLOW_S", "0")))
    return rows
