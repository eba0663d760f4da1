"""Kafka topics as a source: discovery, fetching, unpacking and decoding.

Tests: tests/connectors/kafka/source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.connectors.formats.factories import (
    build_debezium_decoder,
    build_decoder,
    list_decoded_columns,
)
from headrace.connectors.kafka.source.chunk_maker import ChunkMaker
from headrace.connectors.kafka.source.metadata_columns import MetadataColumns
from headrace.connectors.kafka.source.tombstones import TombstoneDecoder
from headrace.connectors.kafka.source.value_decoding import (
    DebeziumValueDecoder,
    RawValueDecoder,
    ValueDecoder,
    build_csv_decoder,
    build_json_decoder,
)
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import BatchSplitReader, ReaderFactory, SourceCoordinator
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import DELETE

if TYPE_CHECKING:
    from headrace.connectors.formats.csv_decode import CsvDecoder


def build_source(source: nodes.Source, run_context: RunContext) -> SourceCoordinator:
    """Build the coordinator's half of the source that the plan describes."""
    # Imports aiokafka, which is not needed merely to validate a pipeline.
    from headrace.connectors.kafka.source.source import TopicSource

    options = source.options
    assert isinstance(options, KafkaSource)
    return TopicSource(source.name, options, run_context)


def build_readers(
    source: nodes.Source, run_context: RunContext, link: CoordinatorLink
) -> ReaderFactory:
    """Build the worker's half of the source that the plan describes."""
    from headrace.connectors.kafka.source.readers import TopicReaders

    options = source.options
    assert isinstance(options, KafkaSource)
    return TopicReaders(source.name, options, run_context, build_chunk_maker(source), link)


def build_batch_reader(source: nodes.Source, run_context: RunContext) -> BatchSplitReader:
    """Build the batch reader of the source that the plan describes."""
    from headrace.connectors.kafka.source.batch_reader import TopicBatchReader

    options = source.options
    assert isinstance(options, KafkaSource)
    return TopicBatchReader(source.name, options, run_context, build_chunk_maker(source))


def build_chunk_maker(source: nodes.Source) -> ChunkMaker:
    """Build the chunk maker of a source: rows of record values, and columns of metadata."""
    options = source.options
    assert isinstance(options, KafkaSource)
    named = {kind: str(name) for kind, name in options.metadata.requested_columns.items()}
    metadata = {kind: name for kind, name in named.items() if name in source.decoded_columns}
    of_values = tuple(name for name in source.decoded_columns if name not in named.values())
    values = build_value_decoder(replace(source, decoded_columns=of_values), tuple(named.values()))
    tombstones, columns = None, source.decoded_columns
    if source.table is not None and not is_debezium(source):
        names = set(source.table.key) - set(named.values())
        key = Schema(tuple(field for field in source.schema if field.name in names))
        tombstones = TombstoneDecoder(key)
        columns = (*columns, *(name for name in nodes.CHANGE_COLUMNS if name not in columns))
    elif source.table is not None:
        before = (f"{nodes.BEFORE_PREFIX}{name}" for name in source.table.key)
        columns = (*columns, DELETE, *before)
    return ChunkMaker(values, MetadataColumns(metadata), columns, tombstones)


def is_debezium(source: nodes.Source) -> bool:
    """Whether the records of a source are messages of Debezium."""
    return source.format is not None and source.format.name == "debezium_json"


def build_value_decoder(source: nodes.Source, metadata: tuple[str, ...] = ()) -> ValueDecoder:
    """Build the reader of values in the source's format; `metadata` names other columns."""
    match source.format.name if source.format else "json":
        case "debezium_json":
            return DebeziumValueDecoder(build_debezium_decoder(source))
        case "raw":
            return RawValueDecoder(list_decoded_columns(source), source.table is not None)
        case "csv":
            names = tuple(name for name in source.schema.names if name not in metadata)
            of_csv: CsvDecoder = build_decoder(source)  # type: ignore[assignment]
            return build_csv_decoder(replace(of_csv, names=names), of_csv.syntax)
    return build_json_decoder(build_decoder(source))
