"""Kafka topics as sinks: rows as records, at least once or exactly once.

Exactly once is a two-phase commit: each subtask writes in one transaction from one checkpoint to
the next. A checkpoint names the transaction; once the checkpoint is complete, the transaction is
committed, if necessary by an attempt that resumes from it.

- `sink`: the two halves: checks and commits in the coordinator's process, writers in the workers'
- `transactional_ids`: the states of the ids, and the durable record of all that may have been used;
  `id_allocator`: allocates them to writers; `transactions`: begins and ends transactions
- `encoding`: records from rows (with `murmur`; `envelopes` of changes); `producer_batches`:
  collects records
- `batch_queue`: decides what is sent next; `batch_sender`: sends it; `row_sender`: adds rows and
  lingers
- `wire`: requests to brokers; `link`: the connection to them

Tests: tests/connectors/kafka/sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.formats.factories import build_encoder
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S, build_outage, connect_client
from headrace.connectors.kafka.retry import OutageReports, OutageSender, RequestRetry
from headrace.connectors.kafka.sink.encoding import RecordMapping
from headrace.connectors.kafka.sink.envelopes import EnvelopeEncoder
from headrace.connectors.kafka.sink.id_allocator import IdAllocator
from headrace.connectors.kafka.sink.link import BrokerLink
from headrace.connectors.kafka.sink.sink import TopicSink, TopicWriters
from headrace.connectors.kafka.sink.transactional_ids import INITIAL_SLOTS, TransactionalIds
from headrace.connectors.kafka.sink.transactions import ProducerInitializer, WriterTransactions
from headrace.connectors.kafka.sink.wire import BrokerRequests
from headrace.connectors.kafka.sink.writer import BatchSettings
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.connectors.kafka.sink_validation import ENVELOPE_FORMAT, list_record_columns
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator, WriterFactory
from headrace.core.expressions import to_expr, type_expression
from headrace.core.plan import nodes
from headrace.core.types.change_columns import BEFORE, CHANGE_NUMBER
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import DELETE, EVENT_TIME

if TYPE_CHECKING:
    import polars as pl

MILLISECOND = timedelta(milliseconds=1)


def build_sink(sink: nodes.Sink, run_context: RunContext) -> SinkCoordinator:
    """Build the coordinator's half of the sink that the plan describes."""
    options = sink.options
    assert isinstance(options, KafkaSink)
    name = str(sink.name)
    subtasks = sink.parallelism if _opens_transactions(options, run_context) else 0
    record = TransactionalIds(run_context.job_id, name, subtasks, INITIAL_SLOTS)
    ids = IdAllocator(
        record, run_context.notes, run_context.kernel_executor, _build_initializer(options)
    )
    outages = OutageReports(run_context.notify_user)
    return TopicSink(
        name,
        _build_link(sink, options, run_context, outages.report),
        None if options.row_topic is not None else str(options.topic),
        ids,
        outages,
        run_context.commit_timing,
        options.on_lost_transaction,
        options.delivery == "exactly_once" and not subtasks,
    )


def build_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> WriterFactory:
    """Build the worker's half of the sink that the plan describes."""
    options = sink.options
    assert isinstance(options, KafkaSink)
    transactions = WriterTransactions(link.request, _build_initializer(options))
    return TopicWriters(
        _build_link(sink, options, run_context, OutageSender(link).report),
        _build_mapping(sink, options, schema, run_context.pipeline_name),
        BatchSettings(options.compression, options.linger),
        run_context.kernel_executor,
        transactions if _opens_transactions(options, run_context) else None,
    )


def _opens_transactions(options: KafkaSink, run_context: RunContext) -> bool:
    """Whether rows are written exactly once; with `--limit` there are no checkpoints for it."""
    return options.delivery == "exactly_once" and run_context.row_limit is None


def _build_initializer(options: KafkaSink) -> ProducerInitializer:
    return ProducerInitializer(options.transaction_timeout // MILLISECOND)


def _build_link(
    sink: nodes.Sink,
    options: KafkaSink,
    run_context: RunContext,
    report_outage: Callable[[str, bool], None],
) -> BrokerLink:
    outage = build_outage(str(sink.name), options)
    retry = RequestRetry(outage, run_context.notify_user, report_outage)
    return BrokerLink(partial(_connect_broker, options, run_context), retry)


async def _connect_broker(options: KafkaSink, run_context: RunContext) -> BrokerRequests:
    return BrokerRequests(
        await connect_client(options, run_context.folder), round(REQUEST_TIMEOUT_S * 1000)
    )


def _build_mapping(
    sink: nodes.Sink, options: KafkaSink, schema: Schema, pipeline: str = ""
) -> RecordMapping:
    """Build the mapping of rows to records."""
    hidden = (DELETE, BEFORE, CHANGE_NUMBER)
    rows = Schema(tuple(field for field in schema if field.name not in hidden))
    format = sink.format.name if sink.format else "json"
    values = list_record_columns(options, rows, format)
    row_topic = options.row_topic
    timestamp = None if options.timestamp is None else str(options.timestamp)

    def compile_text(text: str) -> pl.Expr:
        return to_expr(type_expression(text, rows, sink.max_value))

    headers = {
        str(each.name): compile_text(each.expression or each.name) for each in options.headers or ()
    }
    envelope = (
        EnvelopeEncoder(
            values, pipeline, sink.input.partition("@")[0], options.tombstones is not False
        )
        if format == ENVELOPE_FORMAT
        else None
    )
    return RecordMapping(
        values,
        None if format == "raw" or envelope else build_encoder(sink, values),
        _select_columns(rows, options.key or sink.key),
        _select_columns(rows, options.partition_by or ()),
        "" if row_topic is not None else str(options.topic),
        None if row_topic is None else compile_text(row_topic),
        headers,
        EVENT_TIME if timestamp == "event_time" else timestamp,
        DELETE in schema,
        envelope,
    )


def _select_columns(schema: Schema, names: Iterable[str]) -> Schema:
    return Schema(tuple(field for name in names for field in schema if field.name == name))
