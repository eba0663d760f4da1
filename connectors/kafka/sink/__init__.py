"""Kafka topics as sinks: rows as records, at least once or exactly once.

Exactly once is a two-phase commit: each subtask writes in one transaction from one checkpoint to
the next. A checkpoint names the transaction; once the checkpoint is complete, the transaction is
committed, if necessary by an attempt that resumes from it.

- `transactional_ids`: the states of the ids, and the durable record of all that may have been used;
  `transactions`: begins and ends them
- `encoding`: records from rows (with `murmur`); `producer_batches`: collects records
- `batch_queue`: decides what is sent next; `batch_sender`: sends it; `row_sender`: adds rows and
  lingers
- `wire`: requests to brokers; `link`: the connection to them

Tests: tests/connectors/kafka/sink.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.formats import build_encoder
from headrace.connectors.kafka.connection import REQUEST_TIMEOUT_S, build_outage, connect_client
from headrace.connectors.kafka.retry import RequestRetry
from headrace.connectors.kafka.sink.encoding import RecordMapping
from headrace.connectors.kafka.sink.link import BrokerLink
from headrace.connectors.kafka.sink.sink import TopicSink
from headrace.connectors.kafka.sink.transactional_ids import INITIAL_SLOTS, TransactionalIds
from headrace.connectors.kafka.sink.transactions import SinkTransactions
from headrace.connectors.kafka.sink.wire import BrokerRequests
from headrace.connectors.kafka.sink.writer import BatchSettings
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.connectors.kafka.sink_validation import list_record_columns
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkConnector
from headrace.core.expressions import to_expr, type_expression
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import DELETE, EVENT_TIME

if TYPE_CHECKING:
    import polars as pl

MILLISECOND = timedelta(milliseconds=1)


def build_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> SinkConnector:
    """Build the sink that the plan describes."""
    options = sink.options
    assert isinstance(options, KafkaSink)
    name = str(sink.name)
    patience = RequestRetry(build_outage(name, options), run_context.notify_user)
    exactly_once = options.delivery == "exactly_once"
    limited = exactly_once and run_context.row_limit is not None
    subtasks = sink.parallelism if exactly_once and not limited else 0
    record = TransactionalIds(run_context.job_id, name, subtasks, INITIAL_SLOTS)
    timeout_ms = options.transaction_timeout // MILLISECOND
    transactions = SinkTransactions(
        record, run_context.notes, run_context.kernel_executor, timeout_ms
    )
    return TopicSink(
        name,
        BrokerLink(partial(_connect_broker, options, run_context), patience),
        _build_mapping(sink, options, schema),
        BatchSettings(options.compression, options.linger),
        run_context.kernel_executor,
        transactions,
        run_context.commit_timing,
        options.on_lost_transaction,
        limited,
    )


async def _connect_broker(options: KafkaSink, run_context: RunContext) -> BrokerRequests:
    return BrokerRequests(
        await connect_client(options, run_context.folder), round(REQUEST_TIMEOUT_S * 1000)
    )


def _build_mapping(sink: nodes.Sink, options: KafkaSink, schema: Schema) -> RecordMapping:
    """Build the mapping of rows to records."""
    rows = Schema(tuple(field for field in schema if field.name != DELETE))
    format = sink.format.name if sink.format else "json"
    values = list_record_columns(options, rows, format)
    row_topic = options.row_topic
    timestamp = None if options.timestamp is None else str(options.timestamp)

    def compile_text(text: str) -> pl.Expr:
        return to_expr(type_expression(text, rows, sink.max_value))

    headers = {
        str(each.name): compile_text(each.expression or each.name) for each in options.headers or ()
    }
    return RecordMapping(
        values,
        None if format == "raw" else build_encoder(sink, values),
        _select_columns(rows, options.key or sink.key),
        _select_columns(rows, options.partition_by or ()),
        "" if row_topic is not None else str(options.topic),
        None if row_topic is None else compile_text(row_topic),
        headers,
        EVENT_TIME if timestamp == "event_time" else timestamp,
        len(rows) < len(schema),
    )


def _select_columns(schema: Schema, names: Iterable[str]) -> Schema:
    return Schema(tuple(field for name in names for field in schema if field.name == name))
