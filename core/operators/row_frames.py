"""Aggregates of the frames of rows: the states of overlapping ranges of rows, merged.

The states of the rows are merged in pairs, these again, and so on; a range of rows is merged from
at most two of these blocks for each power of two. So a frame of n rows costs about log n merges,
and an aggregate needs no more than the steps that it has.

Where states are added, running sums are faster. A frame that starts later is a difference of two,
where that is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.aggregates import AggregateCall, compute_partial_states, merge_states
from headrace.core.expressions.parsing.syntax_tree import RowFrame
from headrace.core.operators.row_sequences import LEFT, POSITION, RIGHT, TARGET

if TYPE_CHECKING:
    import polars as pl

_BLOCK = "__block"


MAX_SUBTRACTED_ROWS = 1 << 21
"""The rows up to which sums of integers as doubles are exact, and so are their differences."""


def can_accumulate(call: AggregateCall, frame: RowFrame, rows: int) -> bool:
    """Whether the states of frames are sums of columns, or differences of such sums."""
    accumulator = call.accumulator
    if not accumulator.is_additive:
        return False
    return frame.start is None or (accumulator.is_subtractable and rows <= MAX_SUBTRACTED_ROWS)


def accumulate_ranges(
    states: pl.DataFrame,
    bounds: pl.DataFrame,
    frame: RowFrame,
    starts: pl.Series,
    carried: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return the same as `merge_ranges`, for states that are merged by adding their columns.

    `starts` has the position at which the sequence of each row starts.
    """
    import polars as pl

    nothing = states.clear(1).select(pl.all().fill_null(0))
    if frame.start is None:
        names = states.columns
        sums = states.with_columns(starts.alias(_BLOCK)).select(
            pl.col(names).cum_sum().over(_BLOCK)
        )
        last = pl.concat([sums, nothing])
        is_empty = bounds[LEFT] >= bounds[RIGHT]
        at = pl.select(pl.when(is_empty).then(sums.height).otherwise(bounds[RIGHT] - 1)).to_series()
        merged = last[at]
    else:
        sums = pl.concat([nothing, states.select(pl.all().cum_sum())])
        lefts, rights = sums[bounds[LEFT]], sums[bounds[RIGHT]]
        merged = rights.select(rights[name] - lefts[name] for name in rights.columns)
    merged = merged.with_columns(bounds[TARGET])
    if carried is None or not carried.height:
        return merged
    more = bounds.select(TARGET).join(carried, on=TARGET, how="left", maintain_order="left")
    return merged.with_columns(merged[n] + more[n].fill_null(0) for n in states.columns)


def compute_row_states(rows: pl.DataFrame, calls: Sequence[AggregateCall]) -> pl.DataFrame:
    """Return the state of each row, in their order."""
    numbered = rows.with_row_index(POSITION)
    return compute_partial_states(numbered, (POSITION,), calls).sort(POSITION).drop(POSITION)


def merge_ranges(
    states: pl.DataFrame,
    bounds: pl.DataFrame,
    calls: Sequence[AggregateCall],
    nothing: pl.DataFrame,
    carried: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return the merged state of each range of rows, in the order of `bounds`.

    `states` are those of the rows, `nothing` is that of no rows. `carried` are states that belong
    to a range in addition to those of its rows, with the range as TARGET.
    """
    import polars as pl

    parts = [] if carried is None else [carried]
    targets = bounds[TARGET]
    blocks, pending = states, bounds.filter(pl.col(LEFT) < pl.col(RIGHT))
    found = pl.concat([pending[TARGET], *(part[TARGET] for part in parts)]).unique()
    empty = targets.filter(~targets.is_in(found.implode()))
    if len(empty):
        parts.append(nothing[[0] * len(empty)].with_columns(empty.alias(TARGET)))
    while pending.height:
        at_left = pending.filter(pl.col(LEFT) % 2 == 1)
        at_right = pending.filter(pl.col(RIGHT) % 2 == 1)
        for taken, at in ((at_left, at_left[LEFT]), (at_right, at_right[RIGHT] - 1)):
            if taken.height:
                parts.append(blocks[at].with_columns(taken[TARGET]))
        pending = pending.select(TARGET, (pl.col(LEFT) + 1) // 2, pl.col(RIGHT) // 2).filter(
            pl.col(LEFT) < pl.col(RIGHT)
        )
        if pending.height:
            pairs = blocks.with_row_index(_BLOCK).with_columns(pl.col(_BLOCK) // 2)
            blocks = merge_states(pairs, (_BLOCK,), calls).sort(_BLOCK).drop(_BLOCK)
    names = (TARGET, *states.columns)
    whole = pl.concat([part.select(names) for part in parts])
    return merge_states(whole, (TARGET,), calls).sort(TARGET)
