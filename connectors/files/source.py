"""The files of a source within a run: found in one place, one split each, read by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.files.finding import find, nothing
from headrace.connectors.files.options import FilesSource
from headrace.connectors.files.quota import Quota
from headrace.connectors.files.reader import FileReader
from headrace.connectors.files.turns import InTurn
from headrace.connectors.formats import decoder, parquet_reader
from headrace.connectors.threaded import Threaded
from headrace.core.contracts import Reading, Source, Surroundings
from headrace.core.messages import Position, Split
from headrace.core.plan import nodes

if TYPE_CHECKING:
    from headrace.connectors.files.rows import AnyReader


@dataclass(slots=True)
class Files:
    """`Source` over files that are there when the run begins."""

    name: str
    path: str
    reader: AnyReader
    surroundings: Surroundings

    def discover(self) -> Sequence[Split]:
        """A split for each file."""
        found = find(self.reader.folder, self.path)
        if not found:
            raise nothing(self.reader.folder, self.path)
        if self.reader.quota:
            self.reader.quota.expect(found)
        return [Split(self.name, name) for name in found]

    def reading(self, assigned: Sequence[tuple[Split, Position]]) -> Reading:
        """These files, one after the other: many may be assigned, and one is open."""
        if self.reader.quota:
            return InTurn(self.reader, assigned, self.surroundings)
        return Threaded(self.reader, assigned, self.surroundings, in_order=True)


def open_source(source: nodes.Source, surroundings: Surroundings, block: int) -> Source:
    """The source that the plan describes."""
    options = source.options
    assert isinstance(options, FilesSource)
    quota = Quota(surroundings.limit) if surroundings.limit is not None else None
    reader = _reader(source, str(surroundings.folder), block, quota)
    if options.watch is None:
        return Files(source.name, str(options.path), reader, surroundings)
    from headrace.connectors.files.watching import Watched

    every_s = options.watch.total_seconds()
    return Watched(source.name, str(options.path), reader, surroundings, every_s)


def _reader(source: nodes.Source, folder: str, block: int, quota: Quota | None) -> AnyReader:
    if source.format and source.format.name == "parquet":
        from headrace.connectors.files.rows import RowReader

        return RowReader(folder, parquet_reader(source), quota=quota)
    return FileReader(folder, decoder(source), block, quota)
