"""The state of one step, as rows for people or as it is stored; of one key, or of all.

It reads frozen states only, so it is the same for checkpoints of any backend and for savepoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.core.keygroups import encoded
from headrace.core.readable.joins import JoinStates
from headrace.core.readable.lookup import Wanted
from headrace.core.readable.meaning import (
    JoinMeaning,
    Key,
    Meaning,
    Unreadable,
    key_of,
    meaning,
)
from headrace.core.readable.raw import raw
from headrace.core.readable.states import States
from headrace.core.snapshots import Manifest
from headrace.core.state import KEY, Frozen, Spread

if TYPE_CHECKING:
    import polars as pl

BESIDE = ("counts", "changed", "shown", "held", "held_right", "due", "waits")
"""The auxiliary states, in addition to the one with the step's results."""


@dataclass(frozen=True, slots=True)
class ReadableStep:
    """The state of a step. `frozen` are the states of disjoint key groups."""

    step: str
    document: Manifest
    frozen: Sequence[Frozen]
    meaning: Meaning | JoinMeaning | None
    why_raw: str = ""
    """The reason why it can only be shown as it is stored, if so."""

    @classmethod
    def of(cls, step: str, document: Manifest, frozen: Sequence[Frozen]) -> ReadableStep:
        """Open the state of a step of a checkpoint or savepoint."""
        try:
            return cls(step, document, frozen, meaning(document, step))
        except Unreadable as why:
            return cls(step, document, frozen, None, str(why))

    @property
    def kept(self) -> Any:
        """The meaning of the state (`plan/fingerprint`)."""
        said: Any = self.document
        return said["kept"][self.step]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its states, the most interesting first."""
        found = {*self.kept["states"]}.union(*(frozen.names for frozen in self.frozen))
        return tuple(sorted(found, key=lambda name: (name in BESIDE, name)))

    @property
    def key(self) -> Key:
        """The key of the step."""
        return self.meaning.key if self.meaning else key_of(self.kept["key"])

    def identity(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row of a state."""
        return () if self.meaning is None else _reader(self.meaning).identity(name)

    def rows(
        self, name: str, *, as_kept: bool = False, of: Wanted | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a state, in frames of the same columns."""
        for frozen, frames in self._pieces(name, of):
            if of is not None:
                frames = [_of_key(frame, of.encoded, self.key) for frame in frames]
            if as_kept or self.meaning is None:
                yield from (raw(frame, self.kept) for frame in frames)
            else:
                yield from _reader(self.meaning).read(name, frames, frozen.clock_us)

    def _pieces(self, name: str, of: Wanted | None) -> Iterator[tuple[Frozen, list[pl.DataFrame]]]:
        """Yield the frames that may have rows of a key, or all, grouped by clock."""
        entries = [each for each in self.frozen if _has_entries(each, name)]
        if entries:
            yield entries[0], _dealt([each.entries(name) for each in entries], entries[0], name)
            return
        for frozen in self.frozen:
            if of is None:
                yield frozen, frames_of(frozen, name, frozen.groups)
            elif of.group in frozen.groups:
                yield frozen, frames_of(frozen, name, range(of.group, of.group + 1))


def _reader(meaning: Meaning | JoinMeaning) -> States | JoinStates:
    """Return the reader of these states."""
    return JoinStates(meaning) if isinstance(meaning, JoinMeaning) else States(meaning)


def frames_of(frozen: Frozen, name: str, groups: range) -> list[pl.DataFrame]:
    """Return the frames of a state as they are stored; at most one of a table."""
    if name not in frozen.names:
        return []
    shape = frozen.shape(name)
    if shape.spread is not None:
        rows = frozen.entries(name)
    elif shape.is_table:
        rows = frozen.table(name, groups)
    else:
        return [*frozen.runs(name, groups)]
    return [] if rows is None else [rows]


def _has_entries(frozen: Frozen, name: str) -> bool:
    return name in frozen.names and frozen.shape(name).spread is not None


def _dealt(entries: Iterable[pl.DataFrame | None], frozen: Frozen, name: str) -> list[pl.DataFrame]:
    """Return the entries of all subtasks, each row once: broadcast entries are in every subtask."""
    import polars as pl

    kept = [rows for rows in entries if rows is not None]
    match frozen.shape(name).spread:
        case Spread.BROADCAST | Spread.GROUPS:
            return kept[:1]
        case Spread.UNION if kept:
            return [pl.concat(kept).unique(maintain_order=True)]
    return kept


def _of_key(frame: pl.DataFrame, wanted: str, key: Key) -> pl.DataFrame:
    """Return the rows of a key. Where a table's KEY has more, the key has columns of its own."""
    inside = [f"__k{at}" for at in range(len(key.names))]
    if all(name in frame.columns for name in inside):
        return frame.filter(encoded(frame[inside]) == wanted)
    return frame.filter(frame[KEY] == wanted) if KEY in frame.columns else frame
