"""The files of a source during a run: discovered in one place, each file one split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.files.finding import find, nothing, refuse_dead_links
from headrace.connectors.files.options import FilesSource
from headrace.connectors.files.quota import Quota
from headrace.connectors.files.reader import FileReader
from headrace.connectors.files.turns import InTurn
from headrace.connectors.formats import decoder, parquet_reader
from headrace.connectors.threaded import Threaded
from headrace.core.contracts import Reading, Surroundings
from headrace.core.messages import Split
from headrace.core.plan import nodes

if TYPE_CHECKING:
    from headrace.connectors.files.rows import AnyReader
    from headrace.connectors.files.watching import Watch


@dataclass(slots=True)
class Files:
    """A `BlockingSource` over the files that exist at the start, or with `watch` also later."""

    name: str
    path: str
    reader: AnyReader
    surroundings: Surroundings
    ordered: bool = False
    watch: Watch | None = None

    @property
    def rediscover_s(self) -> float | None:
        """Seconds between two looks for new files, as the pipeline says."""
        return self.watch.every_s if self.watch else None

    def discover(self) -> Sequence[Split]:
        """List a split for each file; of a watched folder, for each file that is ready."""
        found = self.watch.ready() if self.watch else find(self.reader.folder, self.path)
        if not found and not self.watch:
            raise nothing(self.reader.folder, self.path)
        refuse_dead_links(self.reader.folder, found)
        if self.reader.quota:
            self.reader.quota.expect(found)
        return [Split(self.name, name) for name in found]

    def reading(self) -> Reading:
        """Return a reader of one file after the other: many may be assigned, one is open."""
        if self.reader.quota:
            return InTurn(self.reader, self.reader.quota, self.surroundings)
        return Threaded(self.reader, self.surroundings, in_order=True)


def open_source(source: nodes.Source, surroundings: Surroundings, block: int) -> Files:
    """Build the source that the plan describes."""
    options = source.options
    assert isinstance(options, FilesSource)
    quota = Quota(surroundings.limit) if surroundings.limit is not None else None
    folder, path = str(surroundings.folder), str(options.path)
    reader = reader_of(source, folder, block, quota)
    if options.watch is None:
        return Files(source.name, path, reader, surroundings, options.ordered)
    from headrace.connectors.files.watching import Watch

    watch = Watch(folder, path, options.watch.total_seconds())
    return Files(source.name, path, reader, surroundings, options.ordered, watch)


def reader_of(source: nodes.Source, folder: str, block: int, quota: Quota | None) -> AnyReader:
    """Build the reader for the files of a source, by their format."""
    if source.format and source.format.name == "parquet":
        from headrace.connectors.files.rows import RowReader

        return RowReader(folder, parquet_reader(source), quota=quota)
    return FileReader(folder, decoder(source), block, quota)
