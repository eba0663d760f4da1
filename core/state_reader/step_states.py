"""The state of one step, as rows for people or as it is stored; of one key, or of all.

It reads frozen states only, so it is the same for checkpoints of any backend and for savepoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.api.snapshots import DamagedSnapshot, Manifest
from headrace.core.api.state import KEY, FrozenState, Redistribution
from headrace.core.plan.fingerprint import Fingerprint, parse_fingerprint
from headrace.core.plan.states import NEWEST_STATE
from headrace.core.state_reader.column_types import list_column_types
from headrace.core.state_reader.columns import mask_secret_columns
from headrace.core.state_reader.join_states import JoinStateReader
from headrace.core.state_reader.keyed_states import KeyedStateReader
from headrace.core.state_reader.keys import ParsedKey
from headrace.core.state_reader.state_schema import (
    FORM_ERRORS,
    JoinStateSchema,
    StateKey,
    StateSchema,
    UnreadableState,
    read_state_schema,
    rebuild_key,
)
from headrace.core.types.data_types import Type
from headrace.core.types.elements import EVENT_TIME, ORDER, WEIGHT
from headrace.core.types.key_groups import encode_keys
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

AUXILIARY_STATES = (
    *("counts", "changed", "shown", "fired", NEWEST_STATE),
    *("held", "held_right", "due", "waits", "sequence", "emitted"),
)
"""The auxiliary states, in addition to the one with the step's results."""


@dataclass(frozen=True, slots=True)
class StepStateReader:
    """The state of a step. `frozen` are the states of disjoint key groups."""

    step: str
    document: Manifest
    frozen_states: Sequence[FrozenState]
    schema: StateSchema | JoinStateSchema | None
    raw_reason: str = ""
    """The reason why it can only be shown as it is stored, if so."""

    @classmethod
    def from_document(
        cls, step: str, document: Manifest, frozen: Sequence[FrozenState]
    ) -> StepStateReader:
        """Open the state of a step of a checkpoint or savepoint."""
        try:
            return cls(step, document, frozen, read_state_schema(document, step))
        except UnreadableState as why:
            return cls(step, document, frozen, None, str(why))

    @property
    def fingerprint(self) -> Fingerprint:
        """The meaning of the state."""
        document: Any = self.document
        return parse_fingerprint(self.step, document["kept"])

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of its states, the most interesting first."""
        found = {*self.fingerprint.states}.union(*(frozen.names for frozen in self.frozen_states))
        return tuple(sorted(found, key=lambda name: (name in AUXILIARY_STATES, name)))

    @property
    def key(self) -> StateKey:
        """The key of the step."""
        return self.schema.key if self.schema else rebuild_key(self.fingerprint.key)

    def list_identity_columns(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row of a state."""
        return () if self.schema is None else _build_reader(self.schema).list_identity_columns(name)

    def list_column_types(self, name: str) -> dict[str, Type]:
        """Return the types of the columns of a state, as far as frames do not have them."""
        return {} if self.schema is None else list_column_types(self.schema, name)

    def read_rows(
        self, name: str, *, as_kept: bool = False, of: ParsedKey | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a state, in frames of the same columns.

        Raises DamagedSnapshot if the state is not as the snapshot describes it.
        """
        from polars.exceptions import PolarsError

        try:
            yield from self._read_rows(name, as_kept, of)
        except (PolarsError, AssertionError, *FORM_ERRORS) as error:
            # What the readers assert of a state is what the snapshot's own metadata says of it.
            why = f": {error}" if str(error) else ""
            message = f"the state of {self.step} is not as its snapshot describes it{why}"
            raise DamagedSnapshot(message, "--raw shows it as it is stored") from error

    def _read_rows(self, name: str, as_kept: bool, of: ParsedKey | None) -> Iterator[pl.DataFrame]:
        calls, is_loop = self.fingerprint.calls, self.fingerprint.operation.startswith("iterate ")
        for frozen, frames in self._read_frames(name, of):
            if of is not None:
                frames = [_filter_key(frame, of.encoded_key, self.key) for frame in frames]
            if not as_kept and is_loop:
                yield _show_loop_rows(frames)
            elif as_kept or self.schema is None:
                yield from (mask_secret_columns(frame, calls) for frame in frames)
            else:
                yield from _build_reader(self.schema).read(name, frames, frozen.clock_us)

    def _read_frames(
        self, name: str, of: ParsedKey | None
    ) -> Iterator[tuple[FrozenState, list[pl.DataFrame]]]:
        """Yield the frames that may have rows of a key, or all, grouped by clock."""
        entries = [each for each in self.frozen_states if _has_entries(each, name)]
        if entries:
            yield (
                entries[0],
                _merge_entries([each.read_entries(name) for each in entries], entries[0], name),
            )
            return
        for frozen in self.frozen_states:
            if of is None:
                yield frozen, read_frames(frozen, name, frozen.groups)
            elif of.key_group in frozen.groups:
                yield frozen, read_frames(frozen, name, range(of.key_group, of.key_group + 1))


def _build_reader(meaning: StateSchema | JoinStateSchema) -> KeyedStateReader | JoinStateReader:
    """Return the reader of these states."""
    return (
        JoinStateReader(meaning)
        if isinstance(meaning, JoinStateSchema)
        else KeyedStateReader(meaning)
    )


def read_frames(frozen: FrozenState, name: str, groups: range) -> list[pl.DataFrame]:
    """Return the frames of a state as they are stored; at most one of a table."""
    if name not in frozen.names:
        return []
    shape = frozen.describe_state(name)
    if shape.redistribution is not None:
        rows = frozen.read_entries(name)
    elif shape.is_table:
        rows = frozen.read_table(name, groups)
    else:
        return [*frozen.read_runs(name, groups)]
    return [] if rows is None else [rows]


def _show_loop_rows(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows that the head of a loop holds: those on their way back, or its tables."""
    import polars as pl

    shown = {EVENT_TIME: "event_time", WEIGHT: "copies"}
    rows = [frame.drop(ORDER, strict=False).rename(shown, strict=False) for frame in frames]
    return pl.concat(rows) if rows else pl.DataFrame()


def _has_entries(frozen: FrozenState, name: str) -> bool:
    return name in frozen.names and frozen.describe_state(name).redistribution is not None


def _merge_entries(
    entries: Iterable[pl.DataFrame | None], frozen: FrozenState, name: str
) -> list[pl.DataFrame]:
    """Return the entries of all subtasks, each row once: broadcast entries are in every subtask."""
    import polars as pl

    frames = [rows for rows in entries if rows is not None]
    match frozen.describe_state(name).redistribution:
        case Redistribution.BROADCAST | Redistribution.GROUPS:
            return frames[:1]
        case Redistribution.UNION if frames:
            return [pl.concat(frames).unique(maintain_order=True)]
    return frames


def _filter_key(frame: pl.DataFrame, wanted: str, key: StateKey) -> pl.DataFrame:
    """Return the rows of a key. Where a table's KEY has more, the key has columns of its own."""
    inside = [f"__k{at}" for at in range(len(key.names))]
    if all(name in frame.columns for name in inside):
        return frame.filter(encode_keys(frame[inside]) == wanted)
    return frame.filter(frame[KEY] == wanted) if KEY in frame.columns else frame
