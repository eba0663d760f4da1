"""The rows that can move a run: those of keys that have runs, or of which a row may start one.

Most rows of most keys move nothing. They are left out before rows are sorted and their keys are
encoded, which takes longer than finding them by the hashes of their keys.

Tests: tests/core/operators/matches/test_match_operator.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from headrace.core.operators.matches.match_rows import MatchedRowColumns
from headrace.core.patterns.runs import RunsOfKey, get_first_start
from headrace.core.types.frames import concat_contiguous

if TYPE_CHECKING:
    import polars as pl


ROWS_OF_KEY = 4
"""With fewer rows than that for each key with runs, moving all rows is faster than selecting."""


class RelevantRows:
    """The selection of rows that can move a run."""

    def __init__(
        self, key: Sequence[str], may_start: pl.Expr | None, columns: MatchedRowColumns
    ) -> None:
        """`key` are the columns of the key that vary.

        `may_start` is what rows fulfil that may start a run; None if all may.
        """
        self._key = list(key)
        self._may_start = may_start
        self._columns = columns

    def select(self, frames: Sequence[pl.DataFrame], active: Collection[RunsOfKey]) -> pl.DataFrame:
        """Return at least the rows that can move a run, if these runs of keys are there.

        If there are many keys with runs for the number of rows, all rows are returned.
        """
        import polars as pl

        if (
            self._may_start is None
            or not self._key
            or len(active) * ROWS_OF_KEY > sum(frame.height for frame in frames)
        ):
            return concat_contiguous(frames)
        known = self._columns.build_key_frame([*map(get_first_start, active)]).select(self._key)
        start = pl.col(self._key).filter(self._may_start)
        starting = [each.select(start) for each in frames]
        wanted = _hash_keys(concat_contiguous([known, *starting])).unique().implode()
        hashes = [_hash_keys(each.select(self._key)) for each in frames]
        which = (each.is_in(wanted, nulls_equal=True) for each in hashes)
        return concat_contiguous([*map(pl.DataFrame.filter, frames, which)])


def _hash_keys(keys: pl.DataFrame) -> pl.Series:
    """Return numbers that are equal for equal keys."""
    first = keys.to_series()
    return first if keys.width == 1 and first.dtype.is_integer() else keys.hash_rows()
