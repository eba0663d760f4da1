"""The merged states of stretches of a list, which may overlap, in a logarithmic number of steps.

The states of all lists lie one after the other. In step n there is, for each position, the merged
state of the 2 ** n positions that end there; a stretch is made of at most one of each length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.operators.folds import Fold

if TYPE_CHECKING:
    import polars as pl

POSITION = "__position"
"""The position of a state; positions are unique, and consecutive within a list."""
OFFSET = "__offset"
"""The number of states before it in its list."""
SPAN = "__span"
"""The number of a stretch."""
SPAN_END = "__span_end"
"""The position of its last state."""
SPAN_LENGTH = "__length"
"""The number of its states."""


def merge_spans(
    states: pl.DataFrame, spans: pl.DataFrame, fold: Fold, key: Sequence[str]
) -> pl.DataFrame:
    """Return the merged state of each stretch of states of one key, with the key and SPAN.

    `states` have the key, POSITION, OFFSET and the columns of the fold; `spans` have SPAN, SPAN_END
    and SPAN_LENGTH.
    """
    import polars as pl

    columns = (SPAN, *key, *fold.state_columns)
    length, parts = 1, [states.head(0).with_columns(pl.lit(0, pl.Int64).alias(SPAN))[columns]]
    while spans.height:
        is_used = (pl.col(SPAN_LENGTH) // length) % 2 == 1
        used = spans.filter(is_used).join(states, left_on=SPAN_END, right_on=POSITION)
        parts.append(used[columns])
        taken = pl.when(is_used).then(length).otherwise(0)
        spans = spans.with_columns(pl.col(SPAN_END) - taken, pl.col(SPAN_LENGTH) - taken)
        spans = spans.filter(pl.col(SPAN_LENGTH) > 0)
        if spans.height:
            states = _double_length(states, length, fold, key)
        length *= 2
    found = pl.concat(parts)
    # Most stretches are of one state, and then nothing is merged.
    return found if found[SPAN].is_unique().all() else fold.merge(found, (*key, SPAN))[columns]


def _double_length(
    states: pl.DataFrame, length: int, fold: Fold, key: Sequence[str]
) -> pl.DataFrame:
    """Merge each state with the one that ends where it begins; drop those without such a state."""
    import polars as pl

    later = states.filter(pl.col(OFFSET) >= 2 * length - 1)
    places = later.select(POSITION, OFFSET)
    earlier = states.with_columns(pl.col(POSITION) + length).join(places, on=POSITION, how="semi")
    both = later.vstack(earlier.select(later.columns)).drop(OFFSET)
    return fold.merge(both, (*key, POSITION)).join(places, on=POSITION)
