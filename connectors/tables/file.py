"""A file as a lookup table: all of its rows in memory, read again when the file has changed.

The file is checked for changes before each batch, and a batch is answered from one version of it.
A file that cannot be read, for example while it is being written, fails the call, which is retried.

Rows are found by an index that is sorted by a hash of the key. A join would build a hash table of
all rows for every batch; the index finds a few thousand keys among millions of rows in time
proportional to the few thousand.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from headrace.connectors.files.options import path_reading
from headrace.core.api.failures import ConnectorError
from headrace.core.api.lookup_tables import LOOKUP_KEY_INDEX
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk
from headrace.core.api.splits import Split
from headrace.core.operators.lookup.client import ONE_ROW_HINT, format_duplicate_error
from headrace.core.pipeline.connector_spec import ConnectorMismatch
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.formats import CsvOptions, JsonOptions
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import choice_of
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, LookupSide
from headrace.core.types.data_types import Field as Column
from headrace.core.types.data_types import Schema, to_polars
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

    from headrace.connectors.files.parquet_reader import AnyFileReader


_HASH_COLUMN = "__hash"


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Rows of a table with unique keys, stored apart from them in the same order."""

    hashes: pl.Series
    keys: pl.DataFrame
    rows: pl.DataFrame
    seed: int

    def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the keys that exist, each with its row number in `keys`."""
        import polars as pl

        hashes = hash_keys(keys, self.seed)
        at = pl.int_range(keys.height, dtype=pl.UInt32, eager=True).alias(LOOKUP_KEY_INDEX)
        if not self.keys.height:
            return self.rows.clear().insert_column(0, at.clear())
        places = self.hashes.search_sorted(hashes, side="left")
        places = pl.Series(places).clip(upper_bound=self.keys.height - 1)
        same = pl.select(
            pl.all_horizontal(
                self.keys[name].gather(places) == keys[name] for name in self.keys.columns
            )
        ).to_series()
        return self.rows[places.filter(same)].insert_column(0, at.filter(same))


def build_index(keys: pl.DataFrame, rows: pl.DataFrame) -> KeyIndex:
    """Build an index of rows by their keys, which must be unique."""
    seed = 0
    while (hashes := hash_keys(keys, seed)).n_unique() < keys.height:
        seed += 1
    order = hashes.arg_sort()
    return KeyIndex(hashes.gather(order).set_sorted(), keys[order], rows[order], seed)


def hash_keys(keys: pl.DataFrame, seed: int) -> pl.Series:
    """Hash each key; the hashes are stable within a process."""
    return keys.hash_rows(seed=seed).alias(_HASH_COLUMN)


FileFormat = Literal["json", "csv", "parquet"]


SUFFIXES: dict[str, FileFormat] = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".csv": "csv",
    ".parquet": "parquet",
}


MAX_KEYS = 1 << 31
"""The maximum of keys per call: in effect, no limit."""


class FileOptions(DocumentModel):
    """A row for each line, object or row of the file; keys must be unique."""

    origin = ("path",)

    path: Annotated[Text, path_reading] = Field(
        description="The file, relative to the pipeline's; `.gz` and `.zst` files are "
        "decompressed. It is read again when it has changed: replace it by renaming a new one."
    )
    format: Annotated[FileFormat | None, choice_of("json", "csv", "parquet")] = Field(
        None, description="The format of the rows; by default from the suffix of the file's name."
    )
    csv: CsvOptions | None = Field(None, description="Options of `format: csv`.")
    json_: JsonOptions | None = Field(None, alias="json", description="Options of `format: json`.")


def detect_format(options: FileOptions) -> FileFormat | None:
    """Return the format given by the option, or by the suffix of the file's name."""
    if options.format is not None:
        return options.format
    name = options.path.removesuffix(".gz").removesuffix(".zst")
    return SUFFIXES.get(os.path.splitext(name)[1].lower())


def find_mismatches(
    options: DocumentModel, keys: Schema, added: Schema
) -> Iterator[ConnectorMismatch]:
    """Yield the reasons for which the file cannot be read."""
    assert isinstance(options, FileOptions)
    known = detect_format(options)
    if known is None:
        hint = "add format: json, csv or parquet"
        yield ConnectorMismatch(f'"{options.path}" does not say its format', options.path, hint)
    if options.csv is not None and not options.csv.header:
        yield ConnectorMismatch(
            "a file that is looked up needs a header", None, "its first line names the columns"
        )
    if options.csv is not None and options.csv.union_by_name:
        yield ConnectorMismatch(
            "a file that is looked up has all columns", None, "remove union_by_name"
        )
    yield from find_type_conflicts(keys, added)
    for name, format_options in (("csv", options.csv), ("json", options.json_)):
        if format_options is not None and known is not None and known != name:
            yield ConnectorMismatch(
                f'"{name}" has the options of format: {name}, but the format is {known}'
            )


def find_type_conflicts(keys: Schema, added: Schema) -> Iterator[ConnectorMismatch]:
    """Yield a mismatch for each column that has one type in `on` and another in `add`."""
    for field in added:
        key = keys.get(field.name)
        if key is not None and key.type != field.type:
            message = f'"{field.name}" is {key.type} in on, and {field.type} in add'
            yield ConnectorMismatch(message, None, f"declare it as {key.type}")


class FileTable:
    """A `LookupTable` over the rows of the latest version of a file."""

    max_keys_per_call = MAX_KEYS

    def __init__(self, lookup: nodes.Lookup, run_context: RunContext) -> None:
        assert isinstance(lookup.options, FileOptions)
        self._lookup = lookup
        self._options = lookup.options
        self._kernel_executor = run_context.kernel_executor
        self._folder = str(run_context.folder)
        self._path = os.path.join(self._folder, self._options.path)
        self._seen: tuple[int, int, int] | None = None
        self._index: KeyIndex | None = None
        self._reading = asyncio.Lock()
        self.readings = 0
        """The number of times the file was read."""

    async def check(self) -> None:
        """Read the file. Raises ConnectorError."""
        await self._load_current()

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the keys, in one batch."""
        index = await self._load_current()
        return await self._kernel_executor.run(keys.height, lambda: index.find(keys))

    async def close(self) -> None:
        """Do nothing: no resource is open."""

    async def _load_current(self) -> KeyIndex:
        """Return the index of all rows, after reading the file again if it has changed."""
        if self._index is None or self._stat_file() != self._seen:
            async with self._reading:
                seen = self._stat_file()
                if self._index is None or seen != self._seen:
                    index = await self._kernel_executor.run_blocking(self._read_index)
                    if self._stat_file() != seen:
                        raise ConnectorError(f"{self._options.path} changed while it was read")
                    self._index, self._seen = index, seen
        return self._index

    def _stat_file(self) -> tuple[int, int, int]:
        """Return the inode, size and modification time, which identify a version of the file."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            status = 2 if isinstance(error, FileNotFoundError) else 1
            message = f"cannot read {self._options.path}: {(error.strerror or '').lower()}"
            raise ConnectorError(message, exit_status=status) from None
        if not stat.S_ISREG(found.st_mode):
            message = f"{self._options.path} is not a regular file"
            hint = "a table is read again when it changes: write its rows into a file"
            raise ConnectorError(message, hint, exit_status=2)
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read_index(self) -> KeyIndex:
        self.readings += 1
        frame = self._read_frame()
        names = self._lookup.key_schema.names
        frame = frame.drop_nulls(names)
        keys = frame.select(names)
        if keys.is_duplicated().any():
            again = keys.filter(keys.is_duplicated()).row(0, named=True)
            raise ConnectorError(
                f"{self._options.path}: {format_duplicate_error(again)}", ONE_ROW_HINT, final=True
            )
        added = {found.column: found.field.name for found in self._lookup.columns}
        return build_index(keys, frame.select(select_as(c, n) for c, n in added.items()))

    def _read_frame(self) -> pl.DataFrame:
        """Read all rows, with the requested columns."""
        import polars as pl

        from headrace.connectors.files.connector import BLOCK_BYTES
        from headrace.connectors.files.parquet_reader import ParquetFileReader
        from headrace.connectors.files.text_reader import TextFileReader
        from headrace.connectors.formats.factories import build_decoder, build_parquet_reader

        source = self._build_source()
        reader = (
            ParquetFileReader(self._folder, build_parquet_reader(source))
            if detect_format(self._options) == "parquet"
            else TextFileReader(self._folder, build_decoder(source), BLOCK_BYTES)
        )
        if detect_format(self._options) == "csv" and not self._stat_file()[1]:
            # Even a file without rows has a header; an empty one is being written, or is not CSV.
            raise ConnectorError(f"{self._options.path} is empty, without a header", exit_status=2)
        frames = [pl.DataFrame(schema={f.name: to_polars(f.type) for f in source.schema})]
        for chunk in self._read_chunks(reader):
            for bad in chunk.bad_records:
                at = f"{self._options.path}, position {bad.position}"
                raise ConnectorError(f"{at}: {bad.error}", f"it reads: {bad.raw[:100]}")
            frames.append(chunk.frame)
        return pl.concat(frames)

    def _read_chunks(self, reader: AnyFileReader) -> Iterator[Chunk]:
        """Yield the file's chunks; errors of the whole file are prefixed with its name."""
        try:
            yield from reader.read(Split(self._lookup.connector, str(self._options.path)), 0)
        except ConnectorError as error:
            if self._options.path not in error.message:
                error.message = f"{self._options.path}: {error.message}"
            if error.hint.startswith("csv: {header: false}"):
                error.hint = "its first line names the columns"
            raise

    def _build_source(self) -> nodes.Source:
        """Describe the file as a source, for its reader."""
        fields = {field.name: field for field in self._lookup.key_schema}
        for found in self._lookup.columns:
            fields.setdefault(found.column, Column(found.column, found.field.type))
        schema = Schema(tuple(Column(f.name, f.type) for f in fields.values()))
        options = self._options
        format = detect_format(options)
        assert format is not None, "the plan has no such lookup"
        format_options = options.csv if format == "csv" else options.json_
        return nodes.Source(
            name=str(options.path),
            connector="file",
            options=options,
            format=nodes.Format(format, format_options),
            schema=schema,
            decoded_columns=schema.names,
            not_null_columns=frozenset(),
            event_time=None,
            watermark=None,
            on_error="fail",
            outputs=(),
            parallelism=1,
        )


def select_as(column: str, name: str) -> pl.Expr:
    """Return a column under another name."""
    import polars as pl

    return pl.col(column).alias(name)


def describe_table(lookup: nodes.Lookup, run_context: RunContext) -> Awaitable[str]:
    """Read the file, and describe its rows."""
    return _describe_table(FileTable(lookup, run_context))


async def _describe_table(table: FileTable) -> str:
    index = await table._load_current()
    return f"{table._options.path}, {index.rows.height} rows"


FILE = Connector(
    "file",
    "A file of rows.",
    lookup=LookupSide(
        FileOptions,
        open=FileTable,
        describe_external=describe_table,
        find_mismatches=find_mismatches,
        is_in_memory=True,
    ),
)
