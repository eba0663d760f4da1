"""The `kafka` connector: topics of Apache Kafka as sources and sinks.

Tests: tests/connectors/kafka.
"""

from __future__ import annotations

import re
from pathlib import Path

from headrace.connectors.kafka.metadata_columns import METADATA_OPTION
from headrace.connectors.kafka.sink_options import KafkaSink, RowTopic
from headrace.connectors.kafka.sink_validation import (
    COLUMN_OPTIONS,
    ENVELOPE_FORMAT,
    EXPRESSIONS,
    find_mismatches,
    get_change_form,
    list_record_columns,
)
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator, WriterFactory
from headrace.core.api.sources import BatchSplitReader, ReaderFactory, SourceCoordinator
from headrace.core.api.splits import Handle, Position
from headrace.core.api.stored_documents import convert_document
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SinkSide, SourceSide
from headrace.core.types.data_types import Schema

FORMATS = ("json", "csv", "raw")
SINK_FORMATS = (*FORMATS, ENVELOPE_FORMAT)


def _open_source(source: nodes.Source, run_context: RunContext) -> SourceCoordinator:
    # Loaded when a pipeline runs, so that help and completion stay fast.
    from headrace.connectors.kafka.source import build_source

    return build_source(source, run_context)


def _open_readers(
    source: nodes.Source, run_context: RunContext, link: CoordinatorLink
) -> ReaderFactory:
    from headrace.connectors.kafka.source import build_readers

    return build_readers(source, run_context, link)


def _open_batch(source: nodes.Source, run_context: RunContext) -> BatchSplitReader:
    from headrace.connectors.kafka.source import build_batch_reader

    return build_batch_reader(source, run_context)


def _open_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> SinkCoordinator:
    from headrace.connectors.kafka.sink import build_sink

    return build_sink(sink, run_context)


def _open_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> WriterFactory:
    from headrace.connectors.kafka.sink import build_writers

    return build_writers(sink, schema, run_context, link)


def _check_split(source: nodes.Source, name: str, position: Position, identity: str | None) -> None:
    from headrace.connectors.kafka.stored_documents import check_position

    check_position(name, position)


def _check_handle(handle: Handle) -> None:
    from headrace.connectors.kafka.stored_documents import TransactionHandle

    convert_document(handle, TransactionHandle)


async def _describe_source(source: nodes.Source, run_context: RunContext) -> str:
    from headrace.connectors.kafka.access_check import describe_source

    return await describe_source(source, run_context)


async def _describe_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> str:
    from headrace.connectors.kafka.access_check import describe_sink

    return await describe_sink(sink, schema, run_context)


def _is_bounded(options: DocumentModel) -> bool:
    assert isinstance(options, KafkaSource)
    return options.stop is not None


def describe_feedback(
    reads: DocumentModel, writes: DocumentModel, format: str, folder: Path
) -> str:
    """Return the topic of a sink that a source reads; "" if it reads none, or another cluster."""
    assert isinstance(reads, KafkaSource)
    assert isinstance(writes, KafkaSink)
    if isinstance(writes.topic, RowTopic) or {*reads.brokers}.isdisjoint(writes.brokers):
        return ""
    topics = reads.topics or ((reads.topic,) if reads.topic is not None else ())
    matches = reads.pattern is not None and re.fullmatch(reads.pattern.reveal(), writes.topic)
    return f'topic "{writes.topic}"' if writes.topic in topics or matches else ""


KAFKA = Connector(
    "kafka",
    "Topics of Apache Kafka.",
    source=SourceSide(
        KafkaSource,
        (*FORMATS, "debezium_json"),
        extra_columns=METADATA_OPTION,
        open=_open_source,
        open_readers=_open_readers,
        open_batch=_open_batch,
        is_bounded=_is_bounded,
        bounding_hint="add stop: latest",
        keeps_key_order=True,
        check_split=_check_split,
        describe_external=_describe_source,
    ),
    sink=SinkSide(
        KafkaSink,
        SINK_FORMATS,
        expressions=EXPRESSIONS,
        column_options=COLUMN_OPTIONS,
        record_columns=list_record_columns,
        find_mismatches=find_mismatches,
        get_change_form=get_change_form,
        open=_open_sink,
        open_writers=_open_writers,
        describe_external=_describe_sink,
        check_handle=_check_handle,
        needs_writer_count=True,
    ),
    describe_feedback=describe_feedback,
    allows_feedback=True,
)
