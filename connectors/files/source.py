"""The files of a source during a run: discovered in one place, each file one split.

Without a row limit, `ThreadedSplitReader` reads the files, and reads ahead even from one file to
the next. With a row limit they are read one after the other, each when its turn has come.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.files.discovery import (
    build_no_files_error,
    find_files,
    refuse_dangling_links,
)
from headrace.connectors.files.folder_columns import (
    build_folder_columns,
    remove_folder_columns,
)
from headrace.connectors.files.open_file import format_reset_hint, open_file
from headrace.connectors.files.options import FilesSource
from headrace.connectors.files.row_quota import RowQuota
from headrace.connectors.files.text_reader import TextFileReader
from headrace.connectors.formats.factories import build_decoder, build_parquet_reader
from headrace.connectors.read_ahead import ReadAhead, ReadAheadReader
from headrace.connectors.thread_adapters import ThreadedSource, ThreadedSplitReader
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import SourceEvent, SplitFinished, SplitReader
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.api.state import Document
from headrace.core.errors.rendering import format_count
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.connectors.files.discovery import FolderWatch
    from headrace.connectors.files.parquet_reader import AnyFileReader


class QuotaSplitReader:
    """A `SplitReader` that waits for each file's turn, as long as rows are wanted."""

    def __init__(self, reader: AnyFileReader, quota: RowQuota, run_context: RunContext) -> None:
        self._reader = reader
        self._quota = quota
        self._run_context = run_context
        self._waiting: deque[tuple[Split, Position]] = deque()
        self._last = False
        self._reading: ThreadedSplitReader | None = None
        self._worked_s = 0.0

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these files after the others."""
        self._waiting.extend(splits)
        self._last = last
        self._quota.notify()

    def pause(self, splits: Collection[Split]) -> None:
        """Return nothing of these splits until the next call; only an open file needs it."""
        if self._reading is not None:
            self._reading.pause(splits)

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return none: a file is never idle before its end."""
        return {}

    def measure_lags(self) -> Mapping[Split, int]:
        """Return none: the rows of a file are unknown before it is read."""
        return {}

    def measure_busy_s(self) -> float:
        """Return the seconds of work for this file and those before it."""
        return self._worked_s + (self._reading.measure_busy_s() if self._reading else 0.0)

    async def fetch(self) -> SourceEvent | None:
        """Return the next chunk of the first unfinished file; None when enough rows were read."""
        # A file once started is read to its end: a chunk of it may be ready already.
        while self._reading is None:
            if self._quota.left <= 0 or (self._last and not self._waiting):
                return None
            if self._waiting and self._quota.is_turn(self._waiting[0][0]):
                self._reading = ThreadedSplitReader(self._reader, self._run_context)
                self._reading.assign([self._waiting.popleft()], last=True)
            else:
                await self._quota.wait_for_change()
        arrival = await self._reading.fetch()
        if isinstance(arrival, SplitFinished):
            self._worked_s, self._reading = self.measure_busy_s(), None
            self._quota.end_turn()
        return arrival

    async def close(self) -> None:
        """Close the open file."""
        if self._reading is not None:
            await self._reading.close()


@dataclass(slots=True)
class FolderSource:
    """A `BlockingSource` over the files that exist at the start, or with `watch` also later."""

    name: str
    path: str
    run_context: RunContext
    may_grow: bool
    """Whether a file may have more at its end when reading resumes in it."""
    watch: FolderWatch | None = None
    resumed_identities: dict[str, str] = field(default_factory=dict)
    read_sizes: dict[str, int] = field(default_factory=dict)
    """The size of each file that was read to its end, until it is reported as grown."""

    @property
    def folder(self) -> str:
        """The folder where relative paths start."""
        return str(self.run_context.folder)

    @property
    def discovery_interval_s(self) -> float | None:
        """Seconds between two looks for new files, as the pipeline says."""
        return self.watch.every_s if self.watch else None

    def discover_splits(self) -> Sequence[Split]:
        """List a split for each file; of a watched folder, for each file that is ready."""
        found = self.watch.list_ready() if self.watch else find_files(self.folder, self.path)
        if not found and not self.watch:
            raise build_no_files_error(self.folder, self.path)
        refuse_dangling_links(self.folder, found)
        if self.watch:
            self._report_grown_files(self.watch)
        return [Split(self.name, name) for name in found]

    def _report_grown_files(self, watch: FolderWatch) -> None:
        """Tell the user once of each file that has grown since it was read to its end."""
        for name, size in list(self.read_sizes.items()):
            if (added := watch.get_size(name) - size) > 0:
                del self.read_sizes[name]
                grown = f"{name} has grown by {format_count(added, 'byte')} since it was read"
                hint = "a watched file is read once: the new lines are not read; use a new file"
                self.run_context.notify_user(f"{self.name}: {grown}; {hint}")

    def check_progress(self, splits: Mapping[Split, Progress]) -> None:
        """Raise ConnectorError if a file that was read in part is another file now.

        It is checked again when it is opened, which may be much later.
        """
        if self.watch is None:
            self._report_new_files({split.name for split in splits})
        for split, progress in splits.items():
            if progress.identity is not None and not progress.is_finished:
                self.resumed_identities[split.name] = progress.identity
                self._check_file(split, progress.position, progress.identity)

    def _report_new_files(self, known: Collection[str]) -> None:
        """Tell the user of files that came after the start of the job, which does not read them."""
        try:
            new = [name for name in find_files(self.folder, self.path) if name not in known]
        except ConnectorError:  # the files may be gone when all of them are read
            return
        if new:
            some = (
                new[0]
                if len(new) == 1
                else f"{new[0]} and {format_count(len(new) - 1, 'more file')}"
            )
            hint = (
                "they are not read: watch: 10s reads new files, --fresh reads all from their start"
            )
            self.run_context.notify_user(f"{self.name}: {some} came after the job started; {hint}")

    def _check_file(self, split: Split, position: Position, identity: str) -> None:
        path = os.path.join(self.folder, split.name)
        if not os.path.exists(path):
            message = f"{split.name} was read up to {position}, and is missing"
            raise ConnectorError(message, format_reset_hint("put it back", split), split=split.name)
        with open_file(path, split.name) as file:
            added = file.check_identity(identity, split, position, may_grow=self.may_grow)
        if added:
            grown = f"{split.name} has grown by {format_count(added, 'byte')} since it was read"
            self.run_context.notify_user(f"{self.name}: {grown}: the new lines are read as well")


@dataclass(frozen=True, slots=True)
class ThreadedFolderSource(ThreadedSource):
    """The coordinator's half: a `FolderSource` in threads, in touch with its readers."""

    source: FolderSource

    async def describe_for_workers(self) -> Document:
        """Return the identities of the files in which reading resumes."""
        return {"identities": self.source.resumed_identities}

    async def answer(self, request: Document) -> Document:
        """Record the size of a file that was read to its end."""
        self.source.read_sizes[str(request["file"])] = int(str(request["size"]))
        return {}


@dataclass(slots=True)
class FolderReaders:
    """The worker's half: the `ReaderFactory` of files."""

    reader: AnyFileReader
    run_context: RunContext
    link: CoordinatorLink
    is_ordered: bool = False
    is_watched: bool = False
    read_ahead: ReadAhead | None = None
    _reports: set[asyncio.Task[None]] = field(default_factory=set)

    def create_reader(self) -> SplitReader:
        """Return a reader of one file after the other: many may be assigned, one is open."""
        if self.reader.quota:
            return QuotaSplitReader(self.reader, self.reader.quota, self.run_context)
        if isinstance(self.reader, TextFileReader) and self.is_watched:
            sizes: dict[str, int] = {}
            reader = replace(self.reader, read_sizes=sizes)
            return WatchedSplitReader(reader, self.run_context, partial(self._report_size, sizes))
        chunks = ReadAheadReader(self.reader, self.read_ahead) if self.read_ahead else self.reader
        return ThreadedSplitReader(chunks, self.run_context, in_order=True)

    def _report_size(self, sizes: dict[str, int], split: Split) -> None:
        """Report a file that was read to its end, so that its growth can be noticed."""
        document = {"file": split.name, "size": sizes.pop(split.name)}
        task = asyncio.create_task(self._send_report(document))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _send_report(self, document: Document) -> None:
        # Without it, growth of the file is not noticed: no reason to fail.
        with suppress(ConnectorError):
            await self.link.request(document)

    async def close(self) -> None:
        """Cancel the reports that are not sent, and end the read-ahead."""
        if self.read_ahead is not None:
            await self.run_context.kernel_executor.run_blocking(self.read_ahead.close)
        for task in self._reports:
            task.cancel()
        await asyncio.gather(*self._reports, return_exceptions=True)


class WatchedSplitReader(ThreadedSplitReader):
    """A reader of the files of a watched folder: calls `finished` at the end of each."""

    def __init__(
        self, reader: TextFileReader, run_context: RunContext, finished: Callable[[Split], None]
    ) -> None:
        super().__init__(reader, run_context, in_order=True)
        self._finished = finished

    async def fetch(self) -> SourceEvent | None:
        """Return the next chunk or end of a file."""
        event = await super().fetch()
        if isinstance(event, SplitFinished):
            self._finished(event.split)
        return event


def build_source(source: nodes.Source, run_context: RunContext) -> FolderSource:
    """Build the coordinator's half of the source that the plan describes."""
    options = source.options
    assert isinstance(options, FilesSource)
    path, may_grow = str(options.path), not _is_parquet(source)
    if options.watch is None:
        return FolderSource(source.name, path, run_context, may_grow)
    from headrace.connectors.files.discovery import FolderWatch

    watch = FolderWatch(str(run_context.folder), path, options.watch.total_seconds())
    return FolderSource(source.name, path, run_context, may_grow, watch)


def build_readers(
    source: nodes.Source,
    run_context: RunContext,
    link: CoordinatorLink,
    block: int,
    read_ahead: ReadAhead | None = None,
) -> FolderReaders:
    """Build the worker's half of the source that the plan describes."""
    options = source.options
    assert isinstance(options, FilesSource)
    quota = RowQuota(run_context.row_limit) if run_context.row_limit is not None else None
    reader = build_reader(source, str(run_context.folder), block, quota)
    identities = link.description.get("identities", {})
    assert isinstance(identities, Mapping)
    reader = replace(reader, resumed_identities=identities)
    watched = options.watch is not None
    return FolderReaders(reader, run_context, link, options.ordered, watched, read_ahead)


def begin_reading(
    source: nodes.Source, folder: str, block: int, early: ReadAhead | None
) -> ReadAhead | None:
    """Begin to read the first file of a source; None if there is none, which the job reports.

    `early` is a reading that began before the source was planned: it is the one, if it reads the
    same.
    """
    options = source.options
    assert isinstance(options, FilesSource)
    with suppress(ConnectorError):
        if files := find_files(folder, str(options.path)):
            split = Split(source.name, files[0])
            reader = build_reader(source, folder, block, None)
            is_same = early is not None and (early.reader, early.split) == (reader, split)
            return early if is_same else ReadAhead(reader, split)
    return None


def _is_parquet(source: nodes.Source) -> bool:
    return source.format is not None and source.format.name == "parquet"


def build_reader(
    source: nodes.Source, folder: str, block: int, quota: RowQuota | None
) -> AnyFileReader:
    """Build the reader for the files of a source, by their format."""
    folders = build_folder_columns(source)
    if folders is not None:
        source = remove_folder_columns(source)
    if _is_parquet(source):
        from headrace.connectors.files.parquet_reader import ParquetFileReader

        parquet = build_parquet_reader(source)
        return ParquetFileReader(
            folder,
            parquet,
            quota=quota,
            max_record_bytes=source.max_record,
            folder_columns=folders,
        )
    decoder = build_decoder(source)
    return TextFileReader(folder, decoder, block, quota, source.max_record, folder_columns=folders)
