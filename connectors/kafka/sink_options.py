"""The options of `kafka:` as a sink in the pipeline document."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

from headrace.connectors.kafka.names import BROKERS_HELP, COMMON_ALIASES, Brokers, topic_reading
from headrace.connectors.kafka.security import SECURITY_HELP, Security
from headrace.core.pipeline.diagnostics import KEY, InvalidValue, ValueProblem, make_expected_error
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import Assignment, AssignmentsReading, ColumnNames
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    ColumnName,
    Duration,
    Expression,
    FieldReading,
    Flag,
    InvalidScalar,
    ScalarReading,
    choice_of,
    positive_duration,
)

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
OnLost = Literal["fail", "warn"]

SINK_ALIASES: Mapping[str, str] = {
    **COMMON_ALIASES,
    **dict.fromkeys(("keys", "key_by", "message_key"), "key"),
    **dict.fromkeys(("compression_type", "compression.type"), "compression"),
    **dict.fromkeys(("linger_ms", "linger.ms"), "linger"),
    **dict.fromkeys(("guarantee", "semantic", "delivery_guarantee"), "delivery"),
    **dict.fromkeys(("transaction_timeout_ms", "transaction.timeout.ms"), "transaction_timeout"),
}


class PositionedChoice(FieldReading):
    """Reads one of some words as a text with its position in the file."""

    def __init__(self, *words: str) -> None:
        self._choice = choice_of(*words)
        self.wanted = self._choice.wanted
        self.json = self._choice.json

    def read(self, value: object) -> object:
        self._choice.read(value)
        return value


class RowTopic(DocumentModel):
    """A topic for each row."""

    expr: Expression = Field(description="An expression (a string) over the columns of a row.")


class TopicReading(FieldReading):
    """Reads the name of a topic, or `{expr: ...}`."""

    part = RowTopic

    def __init__(self) -> None:
        self.wanted = "the name of a topic, or {expr: ...}"
        self.json = topic_reading.json

    def read(self, value: object) -> object:
        if isinstance(value, dict):
            return RowTopic.model_validate(value)
        if not isinstance(value, Text):
            raise make_expected_error(value, self.wanted)
        return topic_reading.read(value)


def _check_header(text: Text) -> Text:
    if not text.strip():
        raise InvalidScalar
    return text


header_reading = ScalarReading("the name of a header", _check_header)


class KafkaSink(DocumentModel):
    """A record for each row; in a stream of changes, for each change, and deletes as tombstones."""

    origin = ("topic",)
    key_aliases = SINK_ALIASES

    brokers: Brokers = Field(description=BROKERS_HELP)
    topic: Annotated[Text | RowTopic, TopicReading()] = Field(
        description="The topic to write to, which must exist; or `{expr: ...}`, an "
        "expression that names the topic of each row."
    )
    key: ColumnNames | None = Field(
        None,
        description="The column, or columns, that become the record's key: a string as it is, "
        "other types as text, null as no key; several as a JSON object. For a stream of changes "
        "it is the stream's key, and may be left out.",
    )
    headers: Annotated[
        tuple[Assignment, ...] | None,
        AssignmentsReading("headers and expressions, as in {origin: source}", header_reading),
    ] = Field(
        None,
        description="Headers of each record: names, and expressions (of type string or binary) "
        "over the columns of a row; a null adds no header.",
    )
    partition_by: ColumnNames | None = Field(
        None,
        description="Columns by whose values rows are assigned to partitions; by default the "
        "key. Partitions are chosen as by Java's clients.",
    )
    timestamp: ColumnName | None = Field(
        None,
        description="The record's timestamp: `event_time`, or a column of type timestamp; by "
        "default the time at which it is written.",
    )
    delivery: Annotated[Text, PositionedChoice("at_least_once", "exactly_once")] = Field(
        Text("at_least_once"),
        description="`exactly_once` writes in transactions, which a checkpoint commits: readers "
        "with `read_committed` see each row exactly once, whatever fails.",
    )
    compression: Annotated[Compression, choice_of("none", "gzip", "snappy", "lz4", "zstd")] = Field(
        "none", description="The compression of record batches."
    )
    linger: Duration = Field(
        timedelta(milliseconds=5),
        description="How long a batch waits for more records, unless it is full.",
    )
    transaction_timeout: Annotated[timedelta, positive_duration] = Field(
        timedelta(minutes=15),
        description="With `exactly_once`: the broker aborts a transaction that is open for longer. "
        "At most what the broker allows (`transaction.max.timeout.ms`).",
    )
    on_lost_transaction: Annotated[OnLost, choice_of("fail", "warn")] = Field(
        "fail",
        description="What to do if the broker has aborted a transaction of a checkpoint: `fail`, "
        "which names the lost rows, or `warn`, and continue without them.",
    )
    tombstones: Flag | None = Field(
        None,
        description="With `format: debezium_json`: whether the envelope of a deletion is followed "
        "by a tombstone of its key, by which compaction removes the key; `true` by default.",
    )
    security: Security = Field(Security(), description=SECURITY_HELP)

    def check_combination(self) -> None:
        if self.delivery == "exactly_once":
            return
        keys = ("transaction_timeout", "on_lost_transaction")
        complaints = [_build_complaint(key) for key in keys if key in self.model_fields_set]
        if complaints:
            raise InvalidValue(*complaints, partial=self)

    @property
    def row_topic(self) -> Text | None:
        """The expression that names the topic of each row, if the topic is one."""
        return self.topic.expr if isinstance(self.topic, RowTopic) else None


def _build_complaint(key: str) -> ValueProblem:
    message = f'"{key}" applies only to transactions'
    return ValueProblem(message=message, hint="say delivery: exactly_once", at=(key, KEY))
