"""The files of a source during a run: discovered in one place, each file one split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.files.finding import (
    build_no_files_error,
    find_files,
    refuse_dangling_links,
)
from headrace.connectors.files.options import FilesSource
from headrace.connectors.files.quota import RowQuota
from headrace.connectors.files.reader import TextFileReader
from headrace.connectors.files.turns import QuotaSplitReader
from headrace.connectors.formats import build_decoder, build_parquet_reader
from headrace.connectors.threaded import ThreadedSplitReader
from headrace.core.contracts import RunContext, SplitReader
from headrace.core.messages import Split
from headrace.core.plan import nodes

if TYPE_CHECKING:
    from headrace.connectors.files.rows import AnyFileReader
    from headrace.connectors.files.watching import FolderWatch


@dataclass(slots=True)
class FolderSource:
    """A `BlockingSource` over the files that exist at the start, or with `watch` also later."""

    name: str
    path: str
    reader: AnyFileReader
    run_context: RunContext
    is_ordered: bool = False
    watch: FolderWatch | None = None

    @property
    def discovery_interval_s(self) -> float | None:
        """Seconds between two looks for new files, as the pipeline says."""
        return self.watch.every_s if self.watch else None

    def discover_splits(self) -> Sequence[Split]:
        """List a split for each file; of a watched folder, for each file that is ready."""
        found = self.watch.list_ready() if self.watch else find_files(self.reader.folder, self.path)
        if not found and not self.watch:
            raise build_no_files_error(self.reader.folder, self.path)
        refuse_dangling_links(self.reader.folder, found)
        if self.reader.quota:
            self.reader.quota.append_splits(found)
        return [Split(self.name, name) for name in found]

    def create_reader(self) -> SplitReader:
        """Return a reader of one file after the other: many may be assigned, one is open."""
        if self.reader.quota:
            return QuotaSplitReader(self.reader, self.reader.quota, self.run_context)
        return ThreadedSplitReader(self.reader, self.run_context, in_order=True)


def build_source(source: nodes.Source, surroundings: RunContext, block: int) -> FolderSource:
    """Build the source that the plan describes."""
    options = source.options
    assert isinstance(options, FilesSource)
    quota = RowQuota(surroundings.row_limit) if surroundings.row_limit is not None else None
    folder, path = str(surroundings.folder), str(options.path)
    reader = build_reader(source, folder, block, quota)
    if options.watch is None:
        return FolderSource(source.name, path, reader, surroundings, options.ordered)
    from headrace.connectors.files.watching import FolderWatch

    watch = FolderWatch(folder, path, options.watch.total_seconds())
    return FolderSource(source.name, path, reader, surroundings, options.ordered, watch)


def build_reader(
    source: nodes.Source, folder: str, block: int, quota: RowQuota | None
) -> AnyFileReader:
    """Build the reader for the files of a source, by their format."""
    if source.format and source.format.name == "parquet":
        from headrace.connectors.files.rows import ParquetFileReader

        return ParquetFileReader(folder, build_parquet_reader(source), quota=quota)
    return TextFileReader(folder, build_decoder(source), block, quota)
