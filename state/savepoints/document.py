"""What `savepoint.json` says: what the manifest of a checkpoint does, but for the states.

Where a checkpoint has what a state backend made of a state, a savepoint has its rows, in files that
any tool reads. See docs/savepoints.md for all of it. What is kept of a step is in one part for each
subtask, or more where its key groups have different clocks:

    {"groups": [0, 64], "key_groups": 128, "clock_us": 12000000, "late": 3, "unfilled": 0,
     "states": {"running": {
       "shape": "table", "key": null, "spread": null, "rows": 2, "timed": false,
       "columns": [{"name": "__key", "type": "string", "polars": "String"}, ...],
       "files": [{"file": "states/totals/running/000-063.parquet", "bytes": 1204,
                  "sha256": "...", "rows": 2, "frames": [2]}]}}}

The rows of runs are frames, each sorted by SLOT, whose order counts: `frames` are their lengths.
"""

from __future__ import annotations

import msgspec
from msgspec import field

from headrace.core.state import Shape, Spread

FORMAT = 1
"""The version of the format. One that is not known is refused; older ones are read for ever."""

KIND = "savepoint"

RUNS, TABLE, ENTRIES = "runs", "table", "entries"


class ColumnDocument(msgspec.Struct):
    """A column: its type in SQL, if there is one, and in Polars."""

    name: str = field(name="name")
    type: str | None = field(name="type")
    polars: str = field(name="polars")


class FileDocument(msgspec.Struct):
    """A Parquet file, by its name within the savepoint."""

    file: str = field(name="file")
    bytes: int = field(name="bytes")
    sha256: str = field(name="sha256")
    rows: int = field(name="rows")
    frames: list[int] = field(name="frames")
    """How many rows each of its frames has: of runs, frame by frame; else all at once."""


class StateDocument(msgspec.Struct):
    """The rows of a state, in a range of key groups."""

    shape: str = field(name="shape")
    key: tuple[str, ...] | None = field(name="key")
    spread: Spread | None = field(name="spread")
    rows: int = field(name="rows")
    timed: bool = field(name="timed")
    """Whether some row of a table is to be forgotten at its UNTIL."""
    columns: list[ColumnDocument] = field(name="columns")
    files: list[FileDocument] = field(name="files")


class PartDocument(msgspec.Struct):
    """What is kept of a step in a range of key groups that have one clock."""

    groups: tuple[int, int] = field(name="groups")
    key_groups: int = field(name="key_groups")
    clock_us: int = field(name="clock_us")
    late: int = field(name="late")
    unfilled: int = field(name="unfilled")
    states: dict[str, StateDocument] = field(name="states")


def shape_of(state: StateDocument) -> Shape:
    """Which shape a state has."""
    return Shape(state.shape == TABLE, state.key, state.spread)


def name_of(shape: Shape) -> str:
    """What a shape is called."""
    if shape.spread is not None:
        return ENTRIES
    return TABLE if shape.is_table else RUNS
