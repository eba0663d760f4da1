"""The record of the `files` connector: its options, formats and checks, and what opens it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from headrace.connectors.files.options import FilesSink, FilesSource
from headrace.connectors.files.patterns import describe_feedback, has_wildcards
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator, WriterFactory
from headrace.core.api.sources import BatchSplitReader, ReaderFactory, SourceCoordinator
from headrace.core.api.splits import Handle, Position
from headrace.core.api.state import Document
from headrace.core.api.stored_documents import convert_document
from headrace.core.pipeline.connector_spec import ColumnOption
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SinkSide, SourceSide
from headrace.core.types.change_columns import ChangeForm
from headrace.core.types.data_types import BINARY, DOUBLE, FLOAT, Schema, Type, is_nested

if TYPE_CHECKING:
    from headrace.connectors.read_ahead import ReadAhead

FORMATS = ("json", "csv", "parquet", "raw")


BLOCK_BYTES = 16 << 20
"""Bytes of text decoded at once: less costs too many calls, there and in each operator, and more
costs memory."""


NOTHING_READ_AHEAD: Mapping[str, ReadAhead] = MappingProxyType({})


def build_connector(
    block: int = BLOCK_BYTES, read_ahead: Mapping[str, ReadAhead] = NOTHING_READ_AHEAD
) -> Connector:
    """Build the connector, which reads blocks of that size, and continues what was read ahead.

    `read_ahead`: the first file of each source, by the name of the source.
    """

    def readers(
        source: nodes.Source, run_context: RunContext, link: CoordinatorLink
    ) -> ReaderFactory:
        # Loaded when a pipeline runs, so that help and completion stay fast.
        from headrace.connectors.files.source import build_readers

        return build_readers(source, run_context, link, block, read_ahead.get(source.name))

    def pieces(source: nodes.Source, run_context: RunContext) -> BatchSplitReader:
        from headrace.connectors.files.batch_reader import build_batch_reader

        return build_batch_reader(source, run_context, block)

    return Connector(
        "files",
        "Files.",
        source=SourceSide(
            FilesSource,
            (*FORMATS, "debezium_json"),
            column_options=(ColumnOption("partition_by", find_value_objection),),
            record_columns=list_record_columns,
            open=_open_source,
            open_readers=readers,
            open_batch=pieces,
            is_bounded=_is_bounded,
            bounding_hint="remove watch",
            estimate_bytes=_estimate_bytes,
            holds_time_back=_may_be_many_files,
            check_split=_check_split,
            describe_external=_describe_source,
        ),
        sink=SinkSide(
            FilesSink,
            FORMATS,
            column_options=(ColumnOption("partition_by", find_folder_objection),),
            record_columns=list_record_columns,
            get_change_form=get_change_form,
            unkeyed_hint="; changelog: full writes each added and removed row",
            open=_open_sink,
            open_writers=_open_writers,
            describe_exclusive=_describe_folder,
            describe_external=_describe_sink,
            check_handle=_check_handle,
            check_writer=_check_writer,
            merge_handles=merge_handles,
        ),
        describe_feedback=describe_feedback,
    )


def _is_bounded(options: DocumentModel) -> bool:
    assert isinstance(options, FilesSource)
    return options.watch is None


def _estimate_bytes(options: DocumentModel, folder: Path) -> int | None:
    assert isinstance(options, FilesSource)
    if options.watch is not None:
        return None
    from headrace.connectors.files.discovery import find_files
    from headrace.core.api.failures import ConnectorError

    try:
        names = find_files(str(folder), options.path)
        return sum(os.path.getsize(folder / name) for name in names)
    except (ConnectorError, OSError):  # reported when the job starts
        return 0


def _may_be_many_files(options: DocumentModel) -> bool:
    """Whether the path may be many files: a pattern, or a folder (a name without a suffix)."""
    assert isinstance(options, FilesSource)
    name = os.path.basename(options.path)
    return not options.ordered and (has_wildcards(options.path) or "." not in name.strip("."))


def _describe_folder(options: DocumentModel) -> str:
    """Name the folder: two sinks in one folder would give their parts the same names."""
    assert isinstance(options, FilesSink)
    return f"the folder {os.path.normpath(options.path)}"


def merge_handles(handles: Sequence[Handle]) -> Sequence[Handle]:
    """Merge the handles: output is replaced only once all new parts have their names."""
    every: list[object] = []
    for handle in handles:
        parts = handle["parts"]
        assert isinstance(parts, list)
        every.extend(parts)
    return ({"parts": every, "all": True},)


def find_value_objection(type: Type) -> tuple[str, str]:
    """Return why a value of that type cannot be read from the name of a folder, and a hint; empty
    if it can."""
    return ("is not a single value", "") if is_nested(type) else ("", "")


def find_folder_objection(type: Type) -> tuple[str, str]:
    """Return why a value of that type cannot name a folder, and a hint; empty if it can."""
    if is_nested(type):
        return "is not a single value", ""
    if type in (FLOAT, DOUBLE, BINARY):
        return "cannot name a folder", "cast it in a step before"
    return "", ""


def list_record_columns(options: DocumentModel, schema: Schema, format: str) -> Schema:
    """Return the columns that do not name folders."""
    folders = getattr(options, "partition_by", None) or ()
    return Schema(tuple(field for field in schema if field.name not in folders))


def get_change_form(options: DocumentModel, format: str) -> ChangeForm | None:
    """Return the form in which changes are written."""
    assert isinstance(options, FilesSink)
    return "full" if options.changelog == "full" else None


async def _describe_source(source: nodes.Source, run_context: RunContext) -> str:
    from headrace.connectors.files.access_check import describe_source

    return await run_context.kernel_executor.run_blocking(
        partial(describe_source, source, run_context)
    )


async def _describe_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> str:
    from headrace.connectors.files.access_check import describe_sink

    return await run_context.kernel_executor.run_blocking(partial(describe_sink, sink, run_context))


def _check_split(source: nodes.Source, name: str, position: Position, identity: str | None) -> None:
    from headrace.connectors.files.stored_documents import check_split

    check_split(source, name, position, identity)


def _check_handle(handle: Handle) -> None:
    from headrace.connectors.files.stored_documents import FilesHandle

    convert_document(handle, FilesHandle)


def _check_writer(state: Document) -> None:
    from headrace.connectors.files.stored_documents import FilesWriterState

    convert_document(state, FilesWriterState)


def _open_source(source: nodes.Source, run_context: RunContext) -> SourceCoordinator:
    from headrace.connectors.files.source import ThreadedFolderSource, build_source

    return ThreadedFolderSource(build_source(source, run_context), run_context.kernel_executor)


def _open_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> SinkCoordinator:
    from headrace.connectors.files.sink import build_sink
    from headrace.connectors.thread_adapters import ThreadedSink

    return ThreadedSink(build_sink(sink, run_context), run_context.kernel_executor)


def _open_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> WriterFactory:
    from headrace.connectors.files.sink import build_writers

    return build_writers(sink, schema, run_context, link)


FILES = build_connector()
