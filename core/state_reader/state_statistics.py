"""The size of a state: its rows, keys and key groups, and the bytes that it takes in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import KEY, FrozenState, StateDescriptor
from headrace.core.state_reader.step_states import read_frames
from headrace.core.types.key_groups import encode_keys, hash_keys
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class KeyGroupSize:
    """The keys and rows of a key group."""

    group: int
    keys: int
    rows: int

    def document(self) -> dict[str, int]:
        """Returns the size under the names that programs know."""
        return {"group": self.group, "keys": self.keys, "rows": self.rows}


@dataclass(slots=True)
class StateStatistics:
    """The size of a state. Entries have no key."""

    kind: str
    rows: int = 0
    keys: int | None = None
    groups: list[KeyGroupSize] = field(default_factory=list)

    @property
    def most_loaded(self) -> KeyGroupSize | None:
        """The key group with most rows."""
        return max(self.groups, key=lambda each: each.rows, default=None)


def measure_state(name: str, frozen: Sequence[FrozenState], key_groups: int) -> StateStatistics:
    """Return the size of a state. Reads all of it, one frozen state after the other."""
    whole = StateStatistics(find_state_kind(name, frozen))
    for each in frozen:
        for group in _measure_groups(each, name, key_groups):
            whole.groups.append(group)
        if name in each.names and each.describe_state(name).redistribution is not None:
            whole.rows += sum(frame.height for frame in read_frames(each, name, each.groups))
    if whole.kind != "entries":
        whole.rows = sum(group.rows for group in whole.groups)
        whole.keys = sum(group.keys for group in whole.groups)
    whole.groups.sort(key=lambda group: group.group)
    return whole


def measure_from_row_count(name: str, frozen: Sequence[FrozenState], rows: int) -> StateStatistics:
    """Return the size of a state from its known number of rows, without reading it.

    In a table a row is a key, unless its KEY has more than the key of the step.
    """
    found = StateStatistics(find_state_kind(name, frozen), rows)
    by_key = all(each.describe_state(name).key is None for each in frozen if name in each.names)
    found.keys = rows if found.kind == "table" and by_key else None
    return found


def find_state_kind(name: str, frozen: Sequence[FrozenState]) -> str:
    """Return the kind of a state: a table, runs or entries."""
    shapes = [each.describe_state(name) for each in frozen if name in each.names]
    if not shapes:
        return "nothing"
    return "entries" if shapes[0].redistribution else "table" if shapes[0].is_table else "runs"


def _measure_groups(frozen: FrozenState, name: str, key_groups: int) -> Iterator[KeyGroupSize]:
    import polars as pl

    if name not in frozen.names or frozen.describe_state(name).redistribution is not None:
        return
    shape = frozen.describe_state(name)
    hashes = [_hash_keys(frame, shape) for frame in read_frames(frozen, name, frozen.groups)]
    if not hashes:
        return
    key = pl.col("key")
    rows = pl.concat(hashes).to_frame("key").lazy()
    groups = rows.group_by((key % key_groups).cast(pl.Int64).alias("group"))
    counts = groups.agg(key.n_unique().alias("keys"), pl.len().alias("rows")).sort("group")
    yield from (KeyGroupSize(*row) for row in counts.collect().iter_rows())


def _hash_keys(frame: pl.DataFrame, shape: StateDescriptor) -> pl.Series:
    """Return the key hash of each row: enough to count keys, and smaller than the keys."""
    import polars as pl

    if shape.key is None:
        return hash_keys(frame[KEY])
    if not shape.key:
        return hash_keys(pl.Series([""])).new_from_index(0, frame.height)
    return hash_keys(encode_keys(frame[list(shape.key)]))


def sum_known_rows(documents: Sequence[Any], name: str) -> int | None:
    """Return the number of rows of a state according to its documents; None if they do not say."""
    found = [document["states"][name] for document in documents if name in document["states"]]
    if not found or not all("rows" in state and state["rows"] is not None for state in found):
        return None
    rows = [state["rows"] for state in found]
    return sum(rows) if all(isinstance(each, int) for each in rows) else None


def sum_bytes(document: object) -> int:
    """Return the total size of the blobs and files that a document names.

    >>> sum_bytes({"a": [{"blob": "00", "bytes": 3}], "b": {"file": "x", "bytes": 4, "rows": 2}})
    7
    """
    if isinstance(document, Mapping):
        own = document.get("bytes")
        if isinstance(own, int) and ("blob" in document or "file" in document):
            return own
        return sum(map(sum_bytes, document.values()))
    return sum(map(sum_bytes, document)) if isinstance(document, list | tuple) else 0
