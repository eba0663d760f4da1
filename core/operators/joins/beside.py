"""The matches of probing rows: as pairs to emit, or as the rows that have any match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.frames import gather_rows, pick_columns
from headrace.core.operators.joins.pairs import JoinOutput
from headrace.core.operators.joins.probing import JoinProbe, RowPair

if TYPE_CHECKING:
    import polars as pl

PROBE_NUMBER, MATCH_NUMBER = "__asks", "__meets"


class MatchedPairs:
    """The matched pairs of a probe; `asking` and `there` are the output columns of its rows."""

    def __init__(
        self, pairs: JoinOutput, probe: JoinProbe, asking: pl.DataFrame, there: pl.DataFrame
    ) -> None:
        self._pairs, self._probe = pairs, probe
        self._probe_rows, self._stored_rows = asking, there

    def iterate_rows(self) -> Iterator[pl.DataFrame]:
        """Return the pairs that pass the join condition, in bounded batches."""
        for asks, meets in self.find_pairs():
            yield gather_rows(self._probe_rows, asks).hstack(gather_rows(self._stored_rows, meets))

    def find_matched(self) -> pl.Series:
        """Return the numbers of the probing rows that have a match, each once, in order."""
        import polars as pl

        if not self._pairs.has_condition:
            return self._probe.find_matched()
        found = [asks.unique() for asks, _ in self.find_pairs()]
        return pl.concat(found).unique().sort() if found else pl.Series([], dtype=pl.UInt32)

    def find_pairs(self) -> Iterator[RowPair]:
        """Return the row numbers of the pairs that pass the join condition."""
        if not self._pairs.has_condition:
            yield from self._probe.iterate_pairs()
            return
        of_asking, of_there = (
            pick_columns(
                frame, [name for name in frame.columns if name in self._pairs.condition_columns]
            )
            for frame in (self._probe_rows, self._stored_rows)
        )
        for asks, meets in self._probe.iterate_pairs():
            numbers = asks.alias(PROBE_NUMBER).to_frame().hstack([meets.alias(MATCH_NUMBER)])
            read = (gather_rows(of_asking, asks), gather_rows(of_there, meets))
            found = self._pairs.filter_pairs(numbers.hstack(read[0]).hstack(read[1]))
            if found.height:
                yield found[PROBE_NUMBER], found[MATCH_NUMBER]


def drop_rows(rows: pl.DataFrame, met: pl.Series) -> pl.DataFrame:
    """Return the rows except those with these numbers."""
    import polars as pl

    if not len(met):
        return rows
    rest = pl.repeat(True, rows.height, dtype=pl.Boolean, eager=True).scatter(met, False)
    return rows.filter(rest)
