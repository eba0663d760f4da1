"""The matches of probing rows: as pairs to emit, or as the rows that have any match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.frames import of_columns, picked
from headrace.core.operators.joins.pairs import Pairs
from headrace.core.operators.joins.probing import Pair, Probe

if TYPE_CHECKING:
    import polars as pl

ASKS, MEETS = "__asks", "__meets"


class Beside:
    """The matched pairs of a probe; `asking` and `there` are the output columns of its rows."""

    def __init__(
        self, pairs: Pairs, probe: Probe, asking: pl.DataFrame, there: pl.DataFrame
    ) -> None:
        self._pairs, self._probe = pairs, probe
        self._probe_rows, self._stored_rows = asking, there

    def rows(self) -> Iterator[pl.DataFrame]:
        """Return the pairs that pass the join condition, in bounded batches."""
        for asks, meets in self.meant():
            yield picked(self._probe_rows, asks).hstack(picked(self._stored_rows, meets))

    def met(self) -> pl.Series:
        """Return the numbers of the probing rows that have a match, each once, in order."""
        import polars as pl

        if not self._pairs.asks:
            return self._probe.met()
        found = [asks.unique() for asks, _ in self.meant()]
        return pl.concat(found).unique().sort() if found else pl.Series([], dtype=pl.UInt32)

    def meant(self) -> Iterator[Pair]:
        """Return the row numbers of the pairs that pass the join condition."""
        if not self._pairs.asks:
            yield from self._probe.pairs()
            return
        of_asking, of_there = (
            of_columns(frame, [name for name in frame.columns if name in self._pairs.reads])
            for frame in (self._probe_rows, self._stored_rows)
        )
        for asks, meets in self._probe.pairs():
            numbers = asks.alias(ASKS).to_frame().hstack([meets.alias(MEETS)])
            read = (picked(of_asking, asks), picked(of_there, meets))
            found = self._pairs.meant(numbers.hstack(read[0]).hstack(read[1]))
            if found.height:
                yield found[ASKS], found[MEETS]


def without(rows: pl.DataFrame, met: pl.Series) -> pl.DataFrame:
    """Return the rows except those with these numbers."""
    import polars as pl

    if not len(met):
        return rows
    rest = pl.repeat(True, rows.height, dtype=pl.Boolean, eager=True).scatter(met, False)
    return rows.filter(rest)
