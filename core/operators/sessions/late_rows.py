"""The rows of a batch that are too late for any session, as if rows came one by one.

A row whose own session would be over belongs to a session that is there when it comes, or is late.
So rows of its batch count only if they come before it and are not late themselves.

Rows behind the watermark are few. The sessions that all rows and stored fragments would form are
found in one pass; rows are taken one by one only where such a session has rows that would be late
alone, and others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.operators.sessions.fragments import (
    FRAGMENT_END,
    FRAGMENT_START,
    ROW_NUMBER,
    SESSION_NUMBER,
    merge_fragments,
    number_sessions,
)
from headrace.core.operators.sessions.row_sessions import (
    CountTrigger,
    CutLists,
    RowSession,
    RowSessions,
    SessionRules,
)

if TYPE_CHECKING:
    import polars as pl

OWN_START, OWN_END = "__own_start", "__own_end"
"""The bounds of a fragment before it is merged with others."""


def find_late_rows(
    rows: pl.DataFrame,
    read_stored: Callable[[pl.DataFrame], Iterable[pl.DataFrame]],
    key: Sequence[str],
    rules: SessionRules,
) -> list[int]:
    """Return the numbers of the rows that are late, sorted.

    `rows` are fragments of one row each, with ROW_NUMBER in the order in which they came.
    `read_stored` returns the fragments of some keys; none of their sessions is over.
    """
    import polars as pl

    time, last_us = pl.col(FRAGMENT_START), rules.last_late_us
    by, none = (*key, FRAGMENT_START, FRAGMENT_END), pl.lit(None, pl.Int64).alias(ROW_NUMBER)
    near = rows.select(*by, pl.col(ROW_NUMBER).cast(pl.Int64)).filter(
        time <= last_us + rules.gap_us
    )
    keys = near.filter(time <= last_us).select(key).unique()
    if key:
        near = near.join(keys, on=key, how="semi", nulls_equal=True)
    stored = pl.concat([near.clear().select(by), *(each.select(by) for each in read_stored(keys))])
    stored = merge_fragments(stored, key, rules.gap_us).unique()
    both = pl.concat([near, stored.with_columns(none)]).with_columns(
        time.alias(OWN_START), pl.col(FRAGMENT_END).alias(OWN_END)
    )
    whole = number_sessions(merge_fragments(both, key, rules.gap_us), key)
    is_suspect = pl.col(ROW_NUMBER).is_not_null() & (pl.col(OWN_START) <= last_us)
    whole = whole.filter(is_suspect.any().over(SESSION_NUMBER))
    is_alone = is_suspect.all().over(SESSION_NUMBER)
    late = whole.filter(is_alone)[ROW_NUMBER].to_list()
    return sorted(late + _take_rows(whole.filter(~is_alone), rules))


def _take_rows(fragments: pl.DataFrame, rules: SessionRules) -> list[int]:
    """Return the numbers of late rows: stored fragments come first, then rows one by one."""
    cuts, trigger = CutLists(), CountTrigger(sys.maxsize)
    by_time = replace(rules, lateness_us=0, clock_us=rules.clock_us - rules.lateness_us)
    groups, late = dict[int, RowSessions](), list[int]()
    columns = (SESSION_NUMBER, OWN_START, OWN_END, ROW_NUMBER)
    for number, start_us, end_us, row in fragments.sort(ROW_NUMBER).select(columns).iter_rows():
        group = groups.get(number)
        if group is None:
            group = groups[number] = RowSessions(number, by_time, trigger, cuts)
        if row is None:
            group.add_session(RowSession(start_us, end_us))
        elif group.add_row(row, start_us) is None:
            late.append(row)
    return late
