"""Document `savepoint.json`: the manifest of a checkpoint with other states.

Where a checkpoint has the documents of a state backend, a savepoint has rows, in files that any
tool reads. docs/savepoints.md describes the whole format. The state of a step is in one part per
subtask, or in several where its key groups have different clocks:

    {"groups": [0, 64], "key_groups": 128, "clock_us": 12000000, "late": 3, "unfilled": 0,
     "states": {"running": {
       "shape": "table", "key": null, "spread": null, "rows": 2, "timed": false,
       "columns": [{"name": "__key", "type": "string", "polars": "String"}, ...],
       "files": [{"file": "states/totals/running/000-063.parquet", "bytes": 1204,
                  "sha256": "...", "rows": 2, "frames": [2]}]}}}

The rows of runs are frames, each sorted by SLOT, and the order of the frames counts: `frames` are
their lengths.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, field

from headrace.core.api.state import Redistribution, StateDescriptor
from headrace.state.memory.documents import TABLE, StepHeader
from headrace.state.storage.documents import CheckpointNumber, JobId

Count: TypeAlias = Annotated[int, Meta(ge=0)]

FORMAT = 1
"""Version of the format. Unknown versions are refused; older versions stay readable for ever."""

SAVEPOINT_KIND = "savepoint"


class ColumnDocument(msgspec.Struct):
    """A column: its SQL type, if it has one, and its Polars type."""

    name: str = field(name="name")
    type: str | None = field(name="type")
    polars: str = field(name="polars")


class FileDocument(msgspec.Struct):
    """A Parquet file, named relative to the savepoint."""

    file: str = field(name="file")
    bytes: Count = field(name="bytes")
    sha256: str = field(name="sha256")
    rows: Count = field(name="rows")
    frames: list[Count] = field(name="frames")
    """Number of rows of each frame: of runs, frame by frame; otherwise all rows as one."""


class StateDocument(msgspec.Struct):
    """Rows of a state in a range of key groups."""

    shape: str = field(name="shape")
    key: tuple[str, ...] | None = field(name="key")
    spread: Redistribution | None = field(name="spread")
    rows: int = field(name="rows")
    timed: bool = field(name="timed")
    """Whether any row of a table expires."""
    columns: list[ColumnDocument] = field(name="columns")
    files: list[FileDocument] = field(name="files")

    @property
    def descriptor(self) -> StateDescriptor:
        """Shape of the state."""
        return StateDescriptor(self.shape == TABLE, self.key, self.spread)


class StepStateDocument(StepHeader):
    """State of a step in a range of key groups that have one clock."""

    states: dict[str, StateDocument] = field(name="states")


class SavepointDocument(msgspec.Struct):
    """The members of a savepoint's document that a manifest lacks or has in another form."""

    job: JobId = field(name="job")
    number: CheckpointNumber = field(name="number")
    states: dict[str, list[list[StepStateDocument]]] = field(name="states")
    """State documents of each step, by subtask."""
