"""What a state is stored as of which part is on disk: a document, and the blobs that it names.

What is in memory is stored as it is by the memory backend (`state/stored`); beside it stand the
files of runs, and those of the database, in which tables have their rows.

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
    """A file of runs."""

    file: BlobName
    part: int
    level: int
    lot: int
    first: int
    last: int
    rows: int
    skip: int


class SpillingRunsDocument(msgspec.Struct, tag_field="shape", tag="runs"):
    """A state of runs."""

    memory: RunsDocument
    spilled: list[SpilledDocument]


class SpillingTableDocument(msgspec.Struct, tag_field="shape", tag="table"):
    """A table."""

    group: tuple[str, ...] | None
    generations: list[TableDocument]
    gone: Named | None
    """The keys whose rows in the database are no more."""
    columns: Named | None
    """An empty frame with the columns of the rows in the database, if there are any."""


class RocksDocument(msgspec.Struct, tag_field="format", tag=FORMAT):
    """All that a step keeps."""

    groups: tuple[int, int]
    key_groups: int
    clock_us: int
    late: int
    unfilled: int
    states: dict[str, SpillingRunsDocument | SpillingTableDocument | EntriesDocument]
    database: dict[str, BlobName]
    """Its files by their names."""
