"""Documents of a state that is partly on disk, and the blobs that they name.

State in memory is stored as by the memory backend (`state/memory/documents`), together with the run
files and the files of the database, which has the rows of tables.

    {"format": "rocksdb", "groups": [0, 128], "key_groups": 128, "clock_us": 12000000,
     "late": 3, "unfilled": 0, "database": {"000012.sst": BLOB, "CURRENT": BLOB}, "states": {
       "windows": {"shape": "runs", "memory": {...}, "spilled": [{"file": BLOB, "part": 0, ...}]},
       "keys": {"shape": "table", "group": null, "generations": [{...}], "gone": null,
                "columns": BLOB}}}
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, field

from headrace.state.memory.documents import (
    RUNS,
    TABLE,
    EntriesDocument,
    RunsDocument,
    StepHeader,
    TableDocument,
)
from headrace.state.memory.frame_blobs import BlobName, FrameBlobNames

FORMAT = "rocksdb"


FileName: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z_-]+(\.[a-z]+)?\Z")]
"""The name of a file in the folder of a database, which leads nowhere else."""


class SpilledDocument(msgspec.Struct):
    """A run file."""

    file: BlobName = field(name="file")
    part: int = field(name="part")
    level: int = field(name="level")
    lot: int = field(name="lot")
    first: int = field(name="first")
    last: int = field(name="last")
    rows: int = field(name="rows")
    skip: int = field(name="skip")


class SpillingRunsDocument(msgspec.Struct, tag_field="shape", tag=RUNS):
    """Document of a state of runs."""

    memory: RunsDocument = field(name="memory")
    spilled: list[SpilledDocument] = field(name="spilled")


class SpillingTableDocument(msgspec.Struct, tag_field="shape", tag=TABLE):
    """Document of a table."""

    group: tuple[str, ...] | None = field(name="group")
    generations: list[TableDocument] = field(name="generations")
    gone: FrameBlobNames | None = field(name="gone")
    """Tombstones: keys whose rows in the database are deleted."""
    columns: FrameBlobNames | None = field(name="columns")
    """Empty frame with the columns of the rows in the database, if there are any."""


class RocksDocument(StepHeader, tag_field="format", tag=FORMAT):
    """Document of all state of a subtask of a step."""

    states: dict[str, SpillingRunsDocument | SpillingTableDocument | EntriesDocument] = field(
        name="states"
    )
    database: dict[FileName, BlobName] = field(name="database")
    """Files of the database by name."""
