"""The merging of fragments of a key to sessions: those at most the gap apart.

Plain functions over columns. A fragment has a start and an end, the times of its first and its last
row; a single row is a fragment. All keys are merged in one pass: sorted by key and start, a session
begins where the key changes, or where a fragment starts more than the gap after all before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

FRAGMENT_START = "__start"
FRAGMENT_END = "__end"
"""The times (microseconds) of the first and the last row of a fragment."""
SESSION_END = "__last"
"""The time of the last row of the session that contains a fragment."""
ROW_NUMBER = "__row"
"""The number of a row in its batch."""
SESSION_NUMBER = "__session"
"""The number of the session that contains a fragment."""


def merge_fragments(pieces: pl.DataFrame, key: Sequence[str], gap_us: int) -> pl.DataFrame:
    """Give each fragment the start and the end of its session; the result is sorted."""
    import polars as pl

    rows = pieces.sort(*key, FRAGMENT_START, nulls_last=False).with_columns(
        _build_key_change(key).cum_sum().alias("__of")
    )
    begins = (pl.col("__of") != pl.col("__of").shift()) | (
        pl.col(FRAGMENT_START) - pl.col("__reach").shift() > gap_us
    )
    rows = rows.with_columns(_compute_reach(rows).alias("__reach"))
    rows = rows.with_columns(begins.fill_null(True).alias("__begins"))
    if rows["__begins"].all():
        return rows.drop("__of", "__reach", "__begins")  # each fragment is a session
    ends = pl.col("__begins").shift(-1, fill_value=True)
    return rows.with_columns(
        pl.when("__begins").then(FRAGMENT_START).forward_fill().alias(FRAGMENT_START),
        pl.when(ends).then("__reach").backward_fill().alias(FRAGMENT_END),
    ).drop("__of", "__reach", "__begins")


def number_sessions(pieces: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Add SESSION_NUMBER to fragments that `merge_fragments` has merged."""
    import polars as pl

    start = pl.col(FRAGMENT_START)
    begins = _build_key_change(key) | (start != start.shift()).fill_null(False)
    return pieces.with_columns(begins.cum_sum().cast(pl.Int64).alias(SESSION_NUMBER))


def _build_key_change(key: Sequence[str]) -> pl.Expr:
    """Return the expression whether a row has another key than the row before it."""
    import polars as pl

    if not key:
        return pl.int_range(pl.len()) < 0
    return pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in key)


def _compute_reach(rows: pl.DataFrame) -> pl.Expr:
    """Return the greatest end so far of each key, whose number is in the column `__of`.

    One pass over all keys, if there are enough bits for the key's number above the times.
    """
    import polars as pl

    if not rows.height:
        return pl.col(FRAGMENT_END)
    low, high = int(rows[FRAGMENT_START].min()), int(rows[FRAGMENT_END].max())  # type: ignore[arg-type]
    span, keys = high - low + 1, int(rows["__of"][-1]) + 1
    if span * keys >= 1 << 62:
        return pl.col(FRAGMENT_END).cum_max().over("__of")
    lifted = pl.col("__of").cast(pl.Int64) * span
    return (pl.col(FRAGMENT_END) - low + lifted).cum_max() - lifted + low


def find_continued(
    pieces: pl.DataFrame, later: pl.DataFrame, key: Sequence[str], gap_us: int
) -> pl.DataFrame:
    """Return the sessions of `pieces` that some of `later` continue, with their new SESSION_END.

    The sessions of `pieces` are complete: none touches another, so one that does not stay alone
    touches some of `later`. (Joining each with all later fragments of its key would make a huge
    number of pairs where a key has many sessions, or there is no key.)
    """
    import polars as pl

    own = (pl.col(FRAGMENT_START).alias("__s"), pl.col(FRAGMENT_END).alias("__e"))
    both = pl.concat(
        each.select(*key, FRAGMENT_START, FRAGMENT_END, *own, pl.lit(is_probe).alias("__asked"))
        for each, is_probe in ((pieces, True), (later, False))
    )
    session = (*key, FRAGMENT_START, FRAGMENT_END)
    whole = merge_fragments(both, key, gap_us)
    found = whole.filter(~pl.col("__asked")).select(session).unique()
    touched = whole.filter("__asked").join(found, on=session, how="semi", nulls_equal=True)
    return touched.select(
        *key,
        pl.col("__s").alias(FRAGMENT_START),
        pl.col("__e").alias(FRAGMENT_END),
        pl.col(FRAGMENT_END).alias(SESSION_END),
    )
