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

import msgspec

from headrace.state.stored import BlobName, EntriesDocument, Named, RunsDocument, TableDocument

FORMAT = "rocksdb"


class SpilledDocument(msgspec.Struct):
    """A run file."""

    file: BlobName
    part: int
    level: int
    lot: int
    first: int
    last: int
    rows: int
    skip: int


class SpillingRunsDocument(msgspec.Struct, tag_field="shape", tag="runs"):
    """Document of a state of runs."""

    memory: RunsDocument
    spilled: list[SpilledDocument]


class SpillingTableDocument(msgspec.Struct, tag_field="shape", tag="table"):
    """Document of a table."""

    group: tuple[str, ...] | None
    generations: list[TableDocument]
    gone: Named | None
    """Tombstones: keys whose rows in the database are deleted."""
    columns: Named | None
    """Empty frame with the columns of the rows in the database, if there are any."""


class RocksDocument(msgspec.Struct, tag_field="format", tag=FORMAT):
    """Document of all state of a subtask of a step."""

    groups: tuple[int, int]
    key_groups: int
    clock_us: int
    late: int
    unfilled: int
    states: dict[str, SpillingRunsDocument | SpillingTableDocument | EntriesDocument]
    database: dict[str, BlobName]
    """Files of the database by name."""
