"""Rows of a checkpoint's step state, read in chunks, so that no state is in memory as a whole.

State of the memory backend is read blob by blob. Of a table, the keys are read first, to find the
rows of the log that count, and then the rows. A database and run files are read as the `rocksdb`
backend reads them, in chunks too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.keygroups import hashes_of
from headrace.core.snapshots import SnapshotStore
from headrace.core.state import KEY, UNTIL, Counts, Document, Shape, StateBackend
from headrace.state.documents import typed
from headrace.state.framing import decoded
from headrace.state.rocks.frozen_table import FrozenSpillingTable
from headrace.state.rocks.runs import FrozenSpillingRuns
from headrace.state.rocks.thawed import RocksThawed
from headrace.state.run import marks
from headrace.state.stored import (
    Named,
    Piece,
    RunsDocument,
    StepDocument,
    TableDocument,
    blobs_of,
)

if TYPE_CHECKING:
    import polars as pl

Pieces: TypeAlias = "Iterator[tuple[pl.DataFrame, bool]]"
"""Rows, and whether they belong to the same frame as the rows before them."""

AT_ONCE = 1 << 20
"""Number of hashes compared per pass, which takes ten times their memory."""

Told: TypeAlias = Callable[[int], None]


class Part(Protocol):
    """State of a step in some key groups that have one clock."""

    @property
    def groups(self) -> range:
        """Key groups of this part."""
        ...

    @property
    def key_groups(self) -> int:
        """Number of key groups of the step."""
        ...

    @property
    def clock_us(self) -> int:
        """Clock of these key groups."""
        ...

    @property
    def counts(self) -> Counts:
        """Counters of the step."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        ...

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        ...

    def pieces(self, name: str) -> Pieces:
        """Yield the rows of a state. Raises SnapshotError."""
        ...


def part_of(
    document: Document, store: SnapshotStore, backend: StateBackend, told: Told = lambda bytes: None
) -> Part:
    """Open the step state of a checkpoint's document; `told` gets the number of bytes of each read.

    Raises SnapshotError.
    """
    if document.get("format") == "frames":
        return FramesPart(typed(document, StepDocument), store, told)
    frozen = backend.thawed(document, store)
    assert isinstance(frozen, RocksThawed)
    return RocksPart(frozen, told)


@dataclass(frozen=True, slots=True)
class FramesPart:
    """Step state that the memory backend stored."""

    document: StepDocument
    store: SnapshotStore
    told: Told

    @property
    def groups(self) -> range:
        """Key groups of this part."""
        return range(*self.document.groups)

    @property
    def key_groups(self) -> int:
        """Number of key groups of the step."""
        return self.document.key_groups

    @property
    def clock_us(self) -> int:
        """Clock of these key groups."""
        return self.document.clock_us

    @property
    def counts(self) -> Counts:
        """Counters of the step."""
        return Counts(self.document.late, self.document.unfilled)

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return frozenset(self.document.states)

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        state = self.document.states[name]
        if isinstance(state, RunsDocument):
            return Shape(is_table=False, key=state.key)
        if isinstance(state, TableDocument):
            return Shape(is_table=True, key=state.group)
        return Shape(is_table=False, key=None, spread=state.spread)

    def pieces(self, name: str) -> Pieces:
        """Yield the rows of a state."""
        state = self.document.states[name]
        if isinstance(state, RunsDocument):
            for piece in state.frames:
                yield from self._piece(piece)
        elif isinstance(state, TableDocument):
            yield from self._table(state)
        elif state.rows is not None:
            yield from ((rows, False) for rows in self._read(state.rows))

    def _piece(self, piece: Piece) -> Pieces:
        """Yield the live rows of a frame."""
        gone = None if piece.gone is None else self._numbers(piece.gone)
        start, goes_on = 0, False
        for rows in self._read(piece.frame):
            height, skip = rows.height, min(max(0, piece.skip - start), rows.height)
            if gone is not None:
                here = _between(gone, start, start + height)
                rows = rows.filter(marks(rows, here) == 0) if len(here) else rows
                skip -= int((here < skip).sum())
            yield rows.slice(skip), goes_on
            start, goes_on = start + height, True

    def _table(self, state: TableDocument) -> Pieces:
        """Yield the rows of a log that count."""
        log = tuple(blob for piece in state.frames for blob in piece.frame)
        if not log:
            return
        gone, start = self._gone(log), 0
        if state.removed is not None:
            gone = gone.append(self._numbers(state.removed).cast(gone.dtype)).unique().sort()
        for rows in self._read(log):
            here = _between(gone, start, start + rows.height)
            start += rows.height
            rows = rows.filter(marks(rows, here) == 0) if len(here) else rows
            yield _remembered(rows, state.now_us), True

    def _gone(self, log: Named) -> pl.Series:
        """Return the ascending numbers of the rows whose key occurs again later in the log.

        Most keys are ruled out by their hash alone; the keys themselves are compared only for equal
        hashes.
        """
        import polars as pl

        twice = _again(pl.concat([hashes_of(rows[KEY]) for rows in self._read(log, [KEY])]))
        if not len(twice):
            return twice
        start, keys = 0, []
        for part in self._read(log, [KEY]):
            keys.append(part[KEY][_between(twice, start, start + part.height)])
            start += part.height
        rows = pl.DataFrame([pl.concat(keys), twice])
        return rows.filter(~rows[KEY].is_last_distinct())[twice.name]

    def _read(self, names: Named, columns: list[str] | None = None) -> Iterator[pl.DataFrame]:
        for blob in blobs_of(names):
            yield decoded(self.store.read(blob), columns)
            self.told(0 if columns else blob.bytes)

    def _numbers(self, names: Named) -> pl.Series:
        import polars as pl

        return pl.concat(list(self._read(names)))["row"]


@dataclass(frozen=True, slots=True)
class RocksPart:
    """Step state that was partly on disk."""

    frozen: RocksThawed
    told: Told

    @property
    def groups(self) -> range:
        """Key groups of this part."""
        return self.frozen.groups

    @property
    def key_groups(self) -> int:
        """Number of key groups of the step."""
        return self.frozen.key_groups

    @property
    def clock_us(self) -> int:
        """Clock of these key groups."""
        return self.frozen.clock_us

    @property
    def counts(self) -> Counts:
        """Counters of the step."""
        return self.frozen.counts

    @property
    def names(self) -> frozenset[str]:
        """Names of all states."""
        return self.frozen.names

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        return self.frozen.shape(name)

    def pieces(self, name: str) -> Pieces:
        """Yield the rows of a state."""
        state = self.frozen.states[name]
        if isinstance(state, FrozenSpillingRuns):
            yield from ((rows, False) for rows in state.memory.frames)
            for spilled in state.spilled:
                rows = state.read(spilled)
                yield rows, False
                self.told(int(rows.estimated_size()))
        elif isinstance(state, FrozenSpillingTable):
            yield from ((rows, True) for rows in state.parts(None, self.key_groups))
        elif state.rows is not None:
            yield state.rows, False


def _between(numbers: pl.Series, start: int, stop: int) -> pl.Series:
    """Return the numbers within the range, counted from its start; `numbers` is ascending."""
    low, high = numbers.search_sorted(start), numbers.search_sorted(stop)
    return numbers.slice(low, high - low) - start


def _again(hashes: pl.Series) -> pl.Series:
    """Return the ascending positions of hashes that occur more than once, in several passes."""
    import polars as pl

    rows = pl.int_range(len(hashes), dtype=pl.UInt32, eager=True)
    parts = hashes.len() // AT_ONCE + 1
    found = []
    for part in range(parts):
        inside = hashes % parts == part if parts > 1 else None
        some = hashes if inside is None else hashes.filter(inside)
        twice = some.is_duplicated()
        if twice.any():
            found.append((rows if inside is None else rows.filter(inside)).filter(twice))
    return pl.concat(found).sort() if found else rows.clear()


def _remembered(rows: pl.DataFrame, now_us: int) -> pl.DataFrame:
    """Return the rows that have not expired."""
    import polars as pl

    if UNTIL not in rows.columns:
        return rows
    return rows.filter(pl.col(UNTIL).is_null() | (pl.col(UNTIL) >= now_us))
