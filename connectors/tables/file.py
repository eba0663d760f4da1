"""A file as a table: all of its rows in memory, read anew when the file has changed.

It is looked at before each batch, and a batch is answered from one reading of it. One that cannot
be read just now, as one that is being written, is a call that failed, and is tried again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from headrace.connectors.files.options import location
from headrace.connectors.tables.index import Index, indexed
from headrace.core.connector import Connector, LookupSide, Misfit
from headrace.core.contracts import Chunk, ConnectorError, Surroundings
from headrace.core.lookup.asked import ONE_ROW, twice
from headrace.core.messages import Split
from headrace.core.pipeline.formats import CsvOptions, JsonOptions
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import choice
from headrace.core.plan import nodes
from headrace.core.types import Field as Column
from headrace.core.types import Schema, to_polars

if TYPE_CHECKING:
    import polars as pl

    from headrace.connectors.files.rows import AnyReader

FileFormat = Literal["json", "csv", "parquet"]
SUFFIXES: dict[str, FileFormat] = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".csv": "csv",
    ".parquet": "parquet",
}
MOST = 1 << 31
"""So many keys are found at once: all that come."""


class FileOptions(Part):
    """A row for each line, object or row of it; a key may be there once."""

    origin = ("path",)

    path: Annotated[Text, location] = Field(
        description="The file, relative to the pipeline's; `.gz` and `.zst` are read as what they "
        "are. It is read anew when it has changed: put a new one in its place by renaming it."
    )
    format: Annotated[FileFormat | None, choice("json", "csv", "parquet")] = Field(
        None, description="How rows are written; by default as the name of the file ends."
    )
    csv: CsvOptions | None = Field(None, description="Options of `format: csv`.")
    json_: JsonOptions | None = Field(None, alias="json", description="Options of `format: json`.")


def format_of(options: FileOptions) -> FileFormat | None:
    """The format that is said, or that the name says."""
    if options.format is not None:
        return options.format
    name = options.path.removesuffix(".gz").removesuffix(".zst")
    return SUFFIXES.get(os.path.splitext(name)[1].lower())


def fits(options: Part, keys: Schema, added: Schema) -> Iterator[Misfit]:
    """Whether the file can be read."""
    assert isinstance(options, FileOptions)
    known = format_of(options)
    if known is None:
        hint = "add format: json, csv or parquet"
        yield Misfit(f'"{options.path}" does not say its format', options.path, hint)
    if options.csv is not None and not options.csv.header:
        yield Misfit(
            "a file that is looked up needs a header", None, "its first line names the columns"
        )
    yield from unlike(keys, added)
    for name, given in (("csv", options.csv), ("json", options.json_)):
        if given is not None and known is not None and known != name:
            yield Misfit(f'"{name}" has the options of format: {name}, but the format is {known}')


def unlike(keys: Schema, added: Schema) -> Iterator[Misfit]:
    """Columns that are of one type as a key, and of another beside the rows."""
    for field in added:
        key = keys.get(field.name)
        if key is not None and key.type != field.type:
            message = f'"{field.name}" is {key.type} in on, and {field.type} in add'
            yield Misfit(message, None, f"declare it as {key.type}")


class FileTable:
    """The rows of a file as it was when it was looked at last."""

    keys_per_call = MOST

    def __init__(self, lookup: nodes.Lookup, surroundings: Surroundings) -> None:
        assert isinstance(lookup.options, FileOptions)
        self._lookup = lookup
        self._options = lookup.options
        self._bench = surroundings.bench
        self._folder = str(surroundings.folder)
        self._path = os.path.join(self._folder, self._options.path)
        self._seen: tuple[int, int, int] | None = None
        self._index: Index | None = None
        self._reading = asyncio.Lock()
        self.readings = 0
        """How often it was read."""

    async def check(self) -> None:
        """Read it."""
        await self._fresh()

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Find all keys at once."""
        index = await self._fresh()
        return await self._bench.run(keys.height, lambda: index.find(keys))

    async def close(self) -> None:
        """Nothing is open."""

    async def _fresh(self) -> Index:
        """All rows, read anew if the file is not as it was."""
        if self._index is None or self._look() != self._seen:
            async with self._reading:
                seen = self._look()
                if self._index is None or seen != self._seen:
                    index = await self._bench.blocking(self._read)
                    if self._look() != seen:
                        raise ConnectorError(f"{self._options.path} changed while it was read")
                    self._index, self._seen = index, seen
        return self._index

    def _look(self) -> tuple[int, int, int]:
        """What tells one file from another."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            status = 2 if isinstance(error, FileNotFoundError) else 1
            message = f"cannot read {self._options.path}: {(error.strerror or '').lower()}"
            raise ConnectorError(message, exit_status=status) from None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> Index:
        self.readings += 1
        frame = self._frame()
        names = self._lookup.keys.names
        frame = frame.drop_nulls(names)
        keys = frame.select(names)
        if keys.is_duplicated().any():
            again = keys.filter(keys.is_duplicated()).row(0, named=True)
            raise ConnectorError(f"{self._options.path}: {twice(again)}", ONE_ROW, final=True)
        added = {found.column: found.field.name for found in self._lookup.add}
        return indexed(keys, frame.select(pl_column(c, n) for c, n in added.items()))

    def _frame(self) -> pl.DataFrame:
        """All rows, of the columns that are wanted."""
        import polars as pl

        from headrace.connectors.files import BLOCK
        from headrace.connectors.files.reader import FileReader
        from headrace.connectors.files.rows import RowReader
        from headrace.connectors.formats.opening import decoder, parquet_reader

        source = self._source()
        reader = (
            RowReader(self._folder, parquet_reader(source))
            if format_of(self._options) == "parquet"
            else FileReader(self._folder, decoder(source), BLOCK)
        )
        if format_of(self._options) == "csv" and not self._look()[1]:
            # One without rows has a header still; this one is being written, or is none.
            raise ConnectorError(f"{self._options.path} is empty, without a header", exit_status=2)
        frames = [pl.DataFrame(schema={f.name: to_polars(f.type) for f in source.schema})]
        for chunk in self._chunks(reader):
            for bad in chunk.bad:
                at = f"{self._options.path}, position {bad.position}"
                raise ConnectorError(f"{at}: {bad.error}", f"it reads: {bad.raw[:100]}")
            frames.append(chunk.frame)
        return pl.concat(frames)

    def _chunks(self, reader: AnyReader) -> Iterator[Chunk]:
        """What is read of the file; its name stands before what is wrong with it as a whole."""
        try:
            yield from reader.read(Split(self._lookup.connector, str(self._options.path)), 0)
        except ConnectorError as error:
            if self._options.path not in error.message:
                error.message = f"{self._options.path}: {error.message}"
            if error.hint.startswith("csv: {header: false}"):
                error.hint = "its first line names the columns"
            raise

    def _source(self) -> nodes.Source:
        """The file as what a reader knows."""
        fields = {field.name: field for field in self._lookup.keys}
        for found in self._lookup.add:
            fields.setdefault(found.column, Column(found.column, found.field.type))
        schema = Schema(tuple(Column(f.name, f.type) for f in fields.values()))
        options = self._options
        format = format_of(options)
        assert format is not None, "the plan has no such lookup"
        given = options.csv if format == "csv" else options.json_
        return nodes.Source(
            name=str(options.path),
            connector="file",
            options=options,
            format=nodes.Format(format, given),
            schema=schema,
            columns=schema.names,
            checked=frozenset(),
            event_time=None,
            watermark=None,
            on_error="fail",
            outputs=(),
            parallelism=1,
        )


def pl_column(column: str, name: str) -> pl.Expr:
    """A column under another name."""
    import polars as pl

    return pl.col(column).alias(name)


def look(lookup: nodes.Lookup, surroundings: Surroundings) -> Awaitable[str]:
    """What there is to look up."""
    return _look(FileTable(lookup, surroundings))


async def _look(table: FileTable) -> str:
    index = await table._fresh()
    return f"{table._options.path}, {index.rows.height} rows"


FILE = Connector(
    "file",
    "A file of rows.",
    lookup=LookupSide(FileOptions, open=FileTable, look=look, fits=fits, whole=True),
)
