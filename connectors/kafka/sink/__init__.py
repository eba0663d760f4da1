"""Kafka topics as sinks: rows as records, at least once or exactly once.

Exactly once is a two-phase commit: each subtask writes in one transaction from one checkpoint to
the next. A checkpoint names the transaction; once the checkpoint is complete, the transaction is
committed, if necessary by an attempt that resumes from it.

- `pool`: the states of transactional ids; `ids`: the durable record of all that may have been used;
  `transactions`: begins and ends them
- `encoding`: records from rows (with `keys` and `murmur`); `batches`: collects records
- `outbox`: decides what is sent next; `sending`: sends it; `outflow`: adds rows and lingers
- `wire`: requests to brokers; `link`: the connection to them
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from headrace.connectors.formats import encoder
from headrace.connectors.kafka.connection import REQUEST_S, connected, outage
from headrace.connectors.kafka.fitting import in_records
from headrace.connectors.kafka.patience import Patience
from headrace.connectors.kafka.sink.encoding import Recipe
from headrace.connectors.kafka.sink.ids import Record
from headrace.connectors.kafka.sink.link import Link
from headrace.connectors.kafka.sink.pool import FIRST
from headrace.connectors.kafka.sink.sink import KafkaOut
from headrace.connectors.kafka.sink.transactions import Transactions
from headrace.connectors.kafka.sink.wire import Wire
from headrace.connectors.kafka.sink.writer import Habits
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.core.contracts import Sink, Surroundings
from headrace.core.elements import DELETE, EVENT_TIME
from headrace.core.expressions import to_expr, type_expression
from headrace.core.plan import nodes
from headrace.core.types import Schema

MILLISECOND = timedelta(milliseconds=1)


def open_sink(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> Sink:
    """Build the sink that the plan describes."""
    options = sink.options
    assert isinstance(options, KafkaSink)
    name = str(sink.name)
    patience = Patience(outage(name, options), surroundings.tell)
    exactly_once = options.delivery == "exactly_once"
    limited = exactly_once and surroundings.limit is not None
    subtasks = sink.parallelism if exactly_once and not limited else 0
    record = Record(surroundings.job, name, subtasks, FIRST)
    timeout_ms = options.transaction_timeout // MILLISECOND
    transactions = Transactions(record, surroundings.notes, surroundings.bench, timeout_ms)
    return KafkaOut(
        name,
        Link(partial(_connect, options, surroundings), patience),
        _recipe(sink, options, schema),
        Habits(options.compression, options.linger),
        surroundings.bench,
        transactions,
        surroundings.commits,
        options.on_lost_transaction,
        limited,
    )


async def _connect(options: KafkaSink, surroundings: Surroundings) -> Wire:
    return Wire(await connected(options, surroundings.folder), round(REQUEST_S * 1000))


def _recipe(sink: nodes.Sink, options: KafkaSink, schema: Schema) -> Recipe:
    """Build the mapping of rows to records."""
    rows = Schema(tuple(field for field in schema if field.name != DELETE))
    format = sink.format.name if sink.format else "json"
    values = in_records(options, rows, format)
    row_topic = options.row_topic
    timestamp = None if options.timestamp is None else str(options.timestamp)
    headers = {
        str(each.name): to_expr(type_expression(each.expression or each.name, rows))
        for each in options.headers or ()
    }
    return Recipe(
        values,
        None if format == "raw" else encoder(sink, values),
        _columns(rows, options.key or sink.key),
        _columns(rows, options.partition_by or ()),
        "" if row_topic is not None else str(options.topic),
        None if row_topic is None else to_expr(type_expression(row_topic, rows)),
        headers,
        EVENT_TIME if timestamp == "event_time" else timestamp,
        len(rows) < len(schema),
    )


def _columns(schema: Schema, names: Iterable[str]) -> Schema:
    return Schema(tuple(field for name in names for field in schema if field.name == name))
