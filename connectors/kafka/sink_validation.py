"""Validation of a plan for a Kafka sink, and the columns of its records.

Changes must stay in order by key, and a delete carries only its key. So a change's record has the
key of its stream, which alone determines the partition and the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.core.pipeline.connector_spec import (
    ColumnOption,
    ConnectorMismatch,
    ExpressionOption,
    SinkInput,
    find_key_mismatches,
)
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.text import Text
from headrace.core.types.change_columns import ChangeForm
from headrace.core.types.data_types import (
    BINARY,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    Schema,
    Type,
    is_nested,
)
from headrace.core.types.stream_kinds import Upsert

ENVELOPE_FORMAT = "debezium_json"
"""The format in which each change has the row before and after it."""

EVENT_TIME_WORD = "event_time"
"""The word for the event time of a row, whatever its column is called."""


def _find_key_objection(type: Type) -> tuple[str, str]:
    if is_nested(type):
        return "is not a single value", "extract what identifies the row in a step before"
    if type in (FLOAT, DOUBLE):
        return "identifies nothing: equal numbers may differ in their last digit", "cast it"
    return "", ""


def _find_timestamp_objection(type: Type) -> tuple[str, str]:
    return ("", "") if type == TIMESTAMP else ("is not a timestamp", "")


COLUMN_OPTIONS = (
    ColumnOption("key", _find_key_objection),
    ColumnOption("partition_by", _find_key_objection),
    ColumnOption("timestamp", _find_timestamp_objection, keywords=frozenset((EVENT_TIME_WORD,))),
)


EXPRESSIONS = (
    ExpressionOption("row_topic", types=(STRING,)),
    ExpressionOption("headers", types=(STRING, BINARY)),
)


def list_record_columns(options: DocumentModel, schema: Schema, format: str) -> Schema:
    """Return the columns in the value of a record.

    These are all columns; for `raw`, the one column that is not used elsewhere in the record.
    """
    assert isinstance(options, KafkaSink)
    if format != "raw" or len(schema) == 1:
        return schema
    apart = set(map(str, (*(options.key or ()), *(options.partition_by or ()))))
    apart |= {str(options.timestamp)} if options.timestamp is not None else set()
    texts = [each.expression or each.name for each in options.headers or ()]
    apart |= _find_read_columns(
        [*texts, *([options.row_topic] if options.row_topic else [])], schema
    )
    return Schema(tuple(field for field in schema if field.name not in apart))


def _find_read_columns(texts: Iterable[Text], schema: Schema) -> set[str]:
    """Return the columns that expressions read."""
    from headrace.core.expressions.parsing.parser import parse_expression
    from headrace.core.expressions.parsing.syntax_tree import Name, walk
    from headrace.core.expressions.typed import ExpressionError

    columns: set[str] = set()
    for text in texts:
        with suppress(ExpressionError):  # it has been reported
            columns |= {
                node.name
                for node in walk(parse_expression(text.reveal()))
                if isinstance(node, Name)
            }
    return columns & set(schema.names)


def get_change_form(options: DocumentModel, format: str) -> ChangeForm | None:
    """Return the form in which changes are written."""
    return "debezium" if format == ENVELOPE_FORMAT else None


def find_mismatches(options: DocumentModel, outgoing: SinkInput) -> Iterator[ConnectorMismatch]:
    """Yield the reasons for which the rows cannot be written."""
    assert isinstance(options, KafkaSink)
    if options.timestamp == EVENT_TIME_WORD and not outgoing.is_timed:
        message = "timestamp: the rows have no event time"
        yield ConnectorMismatch(
            message, options.timestamp, "declare it in the source: event_time: COLUMN"
        )
    if options.delivery == "exactly_once":
        yield from _check_commits(options, outgoing)
    if options.tombstones is not None and outgoing.format != ENVELOPE_FORMAT:
        message = f"tombstones applies only to format: {ENVELOPE_FORMAT}"
        hint = "remove it: in other formats a deletion is a tombstone"
        yield ConnectorMismatch(message, hint=hint)
    if isinstance(outgoing.kind, Upsert):
        yield from _check_changes(options, outgoing.kind, outgoing.schema)


def _check_commits(options: KafkaSink, outgoing: SinkInput) -> Iterator[ConnectorMismatch]:
    """Check that exact checkpoints commit the transactions, and often enough."""
    at, checkpoint = options.delivery, outgoing.checkpoint
    setting = "delivery: exactly_once"
    if outgoing.unreplayable_sources:
        sources = ", ".join(outgoing.unreplayable_sources)
        message = f"{setting} needs checkpoints, and {sources} cannot be read again from one"
        yield ConnectorMismatch(message, at, "say delivery: at_least_once")
    elif checkpoint.every is None:
        message = f"{setting} needs checkpoints, which commit what was written"
        yield ConnectorMismatch(message, at, "settings: {checkpoint: {every: 10s}}")
    elif options.transaction_timeout <= checkpoint.every:
        message = "transaction_timeout must exceed the time from one checkpoint to the next"
        hint = "make transaction_timeout longer, or settings.checkpoint.every shorter"
        yield ConnectorMismatch(message, at, hint)
    if checkpoint.mode == "at_least_once":
        message = f"{setting} needs exact checkpoints, and these are at_least_once"
        yield ConnectorMismatch(message, at, "settings: {checkpoint: {mode: aligned}}")


def _check_changes(options: KafkaSink, kind: Upsert, schema: Schema) -> Iterator[ConnectorMismatch]:
    stream = ", ".join(kind.key)
    yield from find_key_mismatches(options.key or (), kind, schema.names)
    for name in options.partition_by or ():
        if name in schema.names and name not in kind.key:
            yield _build_order_mismatch("partition_by", name, stream)
    if options.row_topic is not None and _find_read_columns([options.row_topic], schema) - set(
        kind.key
    ):
        yield _build_order_mismatch("topic", options.row_topic, stream)


def _build_order_mismatch(option: str, at: Text, stream: str) -> ConnectorMismatch:
    message = f"{option}: the rows are changes of ({stream}), which alone may decide where they go"
    return ConnectorMismatch(message, at, "else a change might not find the row that it replaces")
