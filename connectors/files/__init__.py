"""The `files` connector: a file is a split of a source, or a part of a sink's output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from headrace.connectors.blocking import SinkInThreads, SourceInThreads
from headrace.connectors.files.matching import is_magic
from headrace.connectors.files.options import FilesSink, FilesSource
from headrace.connectors.files.overlap import read_back
from headrace.core.connector import ColumnOption, Connector, SinkSide, SourceSide
from headrace.core.contracts import PieceReader, Sink, Source, Surroundings
from headrace.core.messages import Handle
from headrace.core.pipeline.part import Part
from headrace.core.plan import nodes
from headrace.core.types import BINARY, DOUBLE, FLOAT, Array, Schema, Struct, Type

FORMATS = ("json", "csv", "parquet", "raw")


BLOCK = 8 << 20
"""Bytes of text decoded at once: less costs too many calls, more costs memory."""


def files(block: int = BLOCK) -> Connector:
    """Build the connector, which reads blocks of that size."""

    def source(source: nodes.Source, surroundings: Surroundings) -> Source:
        # Loaded when a pipeline runs, so that help and completion stay fast.
        from headrace.connectors.files.source import open_source

        return SourceInThreads(open_source(source, surroundings, block), surroundings.bench)

    def pieces(source: nodes.Source, surroundings: Surroundings) -> PieceReader:
        from headrace.connectors.files.pieces import open_pieces

        return open_pieces(source, surroundings, block)

    return Connector(
        "files",
        "Files in a folder.",
        source=SourceSide(
            FilesSource,
            FORMATS,
            open=source,
            pieces=pieces,
            bounded=_bounded,
            to_end="remove watch",
            holds_back=_holds_back,
            look=_source_there,
        ),
        sink=SinkSide(
            FilesSink,
            FORMATS,
            column_options=(ColumnOption("partition_by", no_folder),),
            records=in_records,
            open=_sink,
            place=_place,
            look=_sink_there,
            together=together,
        ),
        reads_back=read_back,
    )


def _bounded(options: Part) -> bool:
    assert isinstance(options, FilesSource)
    return options.watch is None


def _holds_back(options: Part) -> bool:
    """Whether the path may be many files: a pattern, or a folder (a name without a suffix)."""
    assert isinstance(options, FilesSource)
    name = os.path.basename(options.path)
    return not options.ordered and (is_magic(options.path) or "." not in name.strip("."))


def _place(options: Part) -> str:
    """Name the folder: two sinks in one folder would give their parts the same names."""
    assert isinstance(options, FilesSink)
    return f"the folder {os.path.normpath(options.path)}"


def together(handles: Sequence[Handle]) -> Sequence[Handle]:
    """Merge the handles: output is replaced only once all new parts have their names."""
    every: list[object] = []
    for handle in handles:
        parts = handle["parts"]
        assert isinstance(parts, list)
        every.extend(parts)
    return ({"parts": every, "all": True},)


def no_folder(type: Type) -> tuple[str, str]:
    """Return why a value of that type cannot name a folder, and a hint; empty if it can."""
    if isinstance(type, Array | Struct):
        return "is not a single value", ""
    if type in (FLOAT, DOUBLE, BINARY):
        return "cannot name a folder", "cast it in a step before"
    return "", ""


def in_records(options: Part, schema: Schema, format: str) -> Schema:
    """Return the columns that do not name folders."""
    folders = getattr(options, "partition_by", None) or ()
    return Schema(tuple(field for field in schema if field.name not in folders))


async def _source_there(source: nodes.Source, surroundings: Surroundings) -> str:
    from headrace.connectors.files.looking import source_there

    return await surroundings.bench.blocking(partial(source_there, source, surroundings))


async def _sink_there(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> str:
    from headrace.connectors.files.looking import sink_there

    return await surroundings.bench.blocking(partial(sink_there, sink, surroundings))


def _sink(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> Sink:
    from headrace.connectors.files.sink import open_sink

    return SinkInThreads(open_sink(sink, schema, surroundings), surroundings.bench)


FILES = files()
