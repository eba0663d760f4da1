"""The size of a state: its rows, keys and key groups, and the bytes that it takes in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.core.keygroups import encoded, hashes_of
from headrace.core.readable.step import frames_of
from headrace.core.state import KEY, Frozen, Shape

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class GroupSize:
    """The keys and rows of a key group."""

    group: int
    keys: int
    rows: int

    def document(self) -> dict[str, int]:
        """Returns the size under the names that programs know."""
        return {"group": self.group, "keys": self.keys, "rows": self.rows}


@dataclass(slots=True)
class Size:
    """The size of a state. Entries have no key."""

    kind: str
    rows: int = 0
    keys: int | None = None
    groups: list[GroupSize] = field(default_factory=list)

    @property
    def most_loaded(self) -> GroupSize | None:
        """The key group with most rows."""
        return max(self.groups, key=lambda each: each.rows, default=None)


def size(name: str, frozen: Sequence[Frozen], key_groups: int) -> Size:
    """Return the size of a state. Reads all of it, one frozen state after the other."""
    whole = Size(kind(name, frozen))
    for each in frozen:
        for group in _groups(each, name, key_groups):
            whole.groups.append(group)
        if name in each.names and each.shape(name).spread is not None:
            whole.rows += sum(frame.height for frame in frames_of(each, name, each.groups))
    if whole.kind != "entries":
        whole.rows = sum(group.rows for group in whole.groups)
        whole.keys = sum(group.keys for group in whole.groups)
    whole.groups.sort(key=lambda group: group.group)
    return whole


def told_size(name: str, frozen: Sequence[Frozen], rows: int) -> Size:
    """Return the size of a state from its known number of rows, without reading it.

    In a table a row is a key, unless its KEY has more than the key of the step.
    """
    found = Size(kind(name, frozen), rows)
    by_key = all(each.shape(name).key is None for each in frozen if name in each.names)
    found.keys = rows if found.kind == "table" and by_key else None
    return found


def kind(name: str, frozen: Sequence[Frozen]) -> str:
    """Return the kind of a state: a table, runs or entries."""
    shapes = [each.shape(name) for each in frozen if name in each.names]
    if not shapes:
        return "nothing"
    return "entries" if shapes[0].spread else "table" if shapes[0].is_table else "runs"


def _groups(frozen: Frozen, name: str, key_groups: int) -> Iterator[GroupSize]:
    import polars as pl

    if name not in frozen.names or frozen.shape(name).spread is not None:
        return
    shape = frozen.shape(name)
    hashes = [_hashes(frame, shape) for frame in frames_of(frozen, name, frozen.groups)]
    if not hashes:
        return
    key = pl.col("key")
    rows = pl.concat(hashes).to_frame("key").lazy()
    groups = rows.group_by((key % key_groups).cast(pl.Int64).alias("group"))
    counts = groups.agg(key.n_unique().alias("keys"), pl.len().alias("rows")).sort("group")
    yield from (GroupSize(*row) for row in counts.collect().iter_rows())


def _hashes(frame: pl.DataFrame, shape: Shape) -> pl.Series:
    """Return the key hash of each row: enough to count keys, and smaller than the keys."""
    import polars as pl

    if shape.key is None:
        return hashes_of(frame[KEY])
    if not shape.key:
        return hashes_of(pl.Series([""])).new_from_index(0, frame.height)
    return hashes_of(encoded(frame[list(shape.key)]))


def told_rows(documents: Sequence[Any], name: str) -> int | None:
    """Return the number of rows of a state according to its documents; None if they do not say."""
    found = [document["states"][name] for document in documents if name in document["states"]]
    if not found or not all("rows" in state and state["rows"] is not None for state in found):
        return None
    rows = [state["rows"] for state in found]
    return sum(rows) if all(isinstance(each, int) for each in rows) else None


def bytes_in(document: object) -> int:
    """Return the total size of the blobs and files that a document names.

    >>> bytes_in({"a": [{"blob": "00", "bytes": 3}], "b": {"file": "x", "bytes": 4, "rows": 2}})
    7
    """
    if isinstance(document, Mapping):
        own = document.get("bytes")
        if isinstance(own, int) and ("blob" in document or "file" in document):
            return own
        return sum(map(bytes_in, document.values()))
    return sum(map(bytes_in, document)) if isinstance(document, list | tuple) else 0
