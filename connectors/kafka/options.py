"""The options of `kafka:`, as users write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.connectors.kafka.names import (
    At,
    Brokers,
    Edge,
    Moment,
    Offsets,
    PlaceReading,
    TopicName,
    TopicNames,
    TopicPattern,
    topic,
)
from headrace.connectors.kafka.security import Security
from headrace.core.pipeline.complaints import KEY, Complaint, Unread, wanted
from headrace.core.pipeline.fields import Assignment, Assignments, ColumnNames
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.settings import interval, positive
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    ColumnName,
    Duration,
    Expression,
    Reading,
    Reads,
    Unfit,
    choice,
)

Isolation = Literal["read_committed", "read_uncommitted"]
OnMissing = Literal["fail", "earliest", "latest"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
OnLost = Literal["fail", "warn"]

BROKERS = (
    "One broker or more, as `host:port`: a list, or a text with commas. One that answers is enough."
)
WHICH = ("topic", "topics", "pattern")
SECURITY = "How brokers are reached, and as whom."

# What other clients call them.
HABITS: Mapping[str, str] = {
    **dict.fromkeys(
        ("bootstrap_servers", "bootstrap.servers", "bootstrap", "servers", "hosts"), "brokers"
    ),
    **dict.fromkeys(("sasl", "ssl", "tls", "auth", "username", "password"), "security"),
}
SOURCE_HABITS: Mapping[str, str] = {
    **HABITS,
    **dict.fromkeys(("auto_offset_reset", "auto.offset.reset", "offset", "from"), "start"),
    **dict.fromkeys(("group_id", "group.id", "consumer_group"), "group"),
    **dict.fromkeys(("isolation_level", "isolation.level"), "isolation"),
    **dict.fromkeys(("end", "until", "to"), "stop"),
}
SINK_HABITS: Mapping[str, str] = {
    **HABITS,
    **dict.fromkeys(("keys", "key_by", "message_key"), "key"),
    **dict.fromkeys(("compression_type", "compression.type"), "compression"),
    **dict.fromkeys(("linger_ms", "linger.ms"), "linger"),
    **dict.fromkeys(("guarantee", "semantic", "delivery_guarantee"), "delivery"),
    **dict.fromkeys(("transaction_timeout_ms", "transaction.timeout.ms"), "transaction_timeout"),
}


def _word(text: Text) -> Text:
    if not text.strip() or not text.isprintable() or len(text) > 249:
        raise Unfit
    return text


class Metadata(Part):
    """Columns of what a record has beside its value: the name that each gets."""

    topic: ColumnName | None = Field(None, description="The topic: a string.")
    partition: ColumnName | None = Field(None, description="The number of the partition: an int.")
    offset: ColumnName | None = Field(None, description="The offset in the partition: a bigint.")
    timestamp: ColumnName | None = Field(
        None, description="The record's timestamp, which may be the `event_time` of the source."
    )
    key: ColumnName | None = Field(None, description="The key, as text; null where there is none.")
    headers: ColumnName | None = Field(
        None,
        description="The headers, in their order: `array<struct<key: string, value: string>>`.",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Metadata:
        if complaints := tuple(_twice(self)):
            raise Unread(*complaints, partial=self)
        return self

    @property
    def columns(self) -> dict[str, Text]:
        """What is asked for, and the column that it becomes, in the order of this class."""
        named = {key: getattr(self, key) for key in type(self).model_fields}
        return {key: name for key, name in named.items() if name is not None}


def _twice(metadata: Metadata) -> Iterator[Complaint]:
    seen: dict[str, str] = {}
    for key, name in metadata.columns.items():
        if name in seen:
            message = f'the column "{name}" is that of {seen[name]} already'
            yield Complaint(name, message=message, at=(key,))
        seen[str(name)] = key


class KafkaSource(Part):
    """The records of topics, a partition being a split; at the last checkpoint reading goes on."""

    origin = WHICH
    one_of = WHICH
    habits = SOURCE_HABITS

    brokers: Brokers = Field(description=BROKERS)
    topic: TopicName | None = Field(None, description="The topic to read.")
    topics: TopicNames | None = Field(None, description="Several topics, whose rows are alike.")
    pattern: TopicPattern | None = Field(
        None,
        description="All topics whose whole name matches a regular expression, also those that "
        "are made later (`discover`).",
    )
    start: Annotated[Edge | Moment | Offsets, PlaceReading("earliest", "latest")] = Field(
        "earliest",
        description="Where the first run begins: `earliest`, `latest`, `{timestamp: T}` or "
        "`{offsets: {0: 17}}`, by partition and with several topics by topic first; a partition "
        "that is not named begins at its earliest record. Later runs go on where the last "
        "checkpoint is, and new partitions are read from their earliest record.",
    )
    stop: Annotated[Literal["latest"] | Moment | Offsets | None, PlaceReading("latest")] = Field(
        None,
        description="Where reading ends; by default it does not. `latest` is the end of each "
        "partition when the job first starts; `{timestamp: T}` and `{offsets: {0: 17}}` stop "
        "before that record, and at the latest there.",
    )
    isolation: Annotated[Isolation, choice("read_committed", "read_uncommitted")] = Field(
        "read_committed",
        description="`read_committed` sees no record of a transaction that is open or was aborted.",
    )
    on_missing_offset: Annotated[OnMissing, choice("fail", "earliest", "latest")] = Field(
        "fail",
        description="What to do when the records to go on with are not there any more: `fail`, or "
        "go on at the `earliest` or `latest` that is.",
    )
    metadata: Metadata = Field(
        Metadata(),
        description="Columns of what a record has beside its value, as in `{offset: at_offset}`; "
        "they stand beside those of `schema`.",
    )
    discover: Annotated[timedelta | None, interval] = Field(
        timedelta(minutes=1),
        description="How often to look for new partitions (and topics of `pattern`); or `never`.",
    )
    group: Annotated[Text | None, Reads("the name of a group", _word)] = Field(
        None,
        description="The consumer group under which positions are committed behind a checkpoint, "
        "for tools that show lag; by default made of the names of pipeline and source. Nothing is "
        "read from there.",
    )
    security: Security = Field(Security(), description=SECURITY)

    @model_validator(mode="after")
    def _goes_together(self) -> KafkaSource:
        if complaints := tuple(_clashes(self)):
            raise Unread(*complaints, partial=self)
        return self

    @property
    def which(self) -> str:
        """The topics, as they are called: `topic bids`."""
        if self.topic is not None:
            return f"topic {self.topic}"
        if self.topics is not None:
            return f"topics {', '.join(map(str, self.topics))}"
        return f"topics like {self.pattern}"


def _clashes(source: KafkaSource) -> Iterator[Complaint]:
    given = [key for key in WHICH if getattr(source, key) is not None]
    if not given:
        yield Complaint(message=f"wanted one of {', '.join(WHICH)}, got none")
    for key in given[1:]:
        message = f'"{key}" stands beside "{given[0]}"'
        yield Complaint(message=message, hint="one of them says what is read", at=(key, KEY))
    for key in ("start", "stop"):
        place = getattr(source, key)
        if isinstance(place, Offsets):
            yield from _of_topics(source, key, place)


def _of_topics(source: KafkaSource, key: str, offsets: Offsets) -> Iterator[Complaint]:
    """Offsets without a topic are those of one, and the topics that are named are read."""
    if not offsets.topics and source.topic is None:
        message = "wanted offsets by topic, got those of one"
        yield Complaint(message=message, hint="as in {orders: {0: 17}}", at=(key, "offsets"))
    known = source.topics or ((source.topic,) if source.topic is not None else ())
    for name in offsets.keys:
        if known and name not in known:
            message = f'the topic "{name}" is not read'
            hint = f"read are {', '.join(map(str, known))}"
            yield Complaint(message=message, hint=hint, at=(key, "offsets", name, KEY))


class Placed(Reading):
    """One of some words, which knows where it stands."""

    def __init__(self, *words: str) -> None:
        self._choice = choice(*words)
        self.wanted = self._choice.wanted
        self.json = self._choice.json

    def read(self, value: object) -> object:
        self._choice.read(value)
        return value


class RowTopic(Part):
    """A topic for each row."""

    expr: Expression = Field(description="An expression (a string) over the columns of a row.")


class TopicReading(Reading):
    """The name of a topic, or `{expr: ...}`."""

    part = RowTopic

    def __init__(self) -> None:
        self.wanted = "the name of a topic, or {expr: ...}"
        self.json = topic.json

    def read(self, value: object) -> object:
        if isinstance(value, dict):
            return RowTopic.model_validate(value)
        if not isinstance(value, Text):
            raise wanted(value, self.wanted)
        return topic.read(value)


def _header(text: Text) -> Text:
    if not text.strip():
        raise Unfit
    return text


header = Reads("the name of a header", _header)


class KafkaSink(Part):
    """A record for each row; of changes, a record for each change, and deletes as tombstones."""

    origin = ("topic",)
    habits = SINK_HABITS

    brokers: Brokers = Field(description=BROKERS)
    topic: Annotated[Text | RowTopic, TopicReading()] = Field(
        description="The topic to write to, which is there already; or `{expr: ...}`, an "
        "expression that names the topic of each row."
    )
    key: ColumnNames | None = Field(
        None,
        description="The column, or columns, that become the record's key: a string as it is, "
        "other types as text, null as no key; several as a JSON object. Of a stream of changes it "
        "is the stream's key, and need not be said.",
    )
    headers: Annotated[
        tuple[Assignment, ...] | None,
        Assignments("headers and expressions, as in {origin: source}", header),
    ] = Field(
        None,
        description="Headers of each record: names, and expressions (of type string or binary) "
        "over the columns of a row; a null is no header.",
    )
    partition_by: ColumnNames | None = Field(
        None,
        description="Columns whose rows go to one partition where they are equal; by default the "
        "key. Partitions are chosen as Java's clients choose them.",
    )
    timestamp: ColumnName | None = Field(
        None,
        description="The record's timestamp: `event_time`, or a column of type timestamp; by "
        "default the time at which it is written.",
    )
    delivery: Annotated[Text, Placed("at_least_once", "exactly_once")] = Field(
        Text("at_least_once"),
        description="`exactly_once` writes in transactions, which a checkpoint commits: readers "
        "that are `read_committed` see each row once, whatever fails.",
    )
    compression: Annotated[Compression, choice("none", "gzip", "snappy", "lz4", "zstd")] = Field(
        "none", description="How batches of records are compressed."
    )
    linger: Duration = Field(
        timedelta(milliseconds=5),
        description="How long a batch of records waits for more, unless it is full.",
    )
    transaction_timeout: Annotated[timedelta, positive] = Field(
        timedelta(minutes=15),
        description="With `exactly_once`: the broker aborts a transaction that is open for longer. "
        "At most what the broker allows (`transaction.max.timeout.ms`).",
    )
    on_lost_transaction: Annotated[OnLost, choice("fail", "warn")] = Field(
        "fail",
        description="What to do when the broker aborted a transaction that a checkpoint holds: "
        "`fail`, which names what is lost, or `warn`, and go on without it.",
    )
    security: Security = Field(Security(), description=SECURITY)

    @model_validator(mode="after")
    def _goes_together(self) -> KafkaSink:
        if self.delivery == "exactly_once":
            return self
        keys = ("transaction_timeout", "on_lost_transaction")
        complaints = [_transactional(key) for key in keys if key in self.model_fields_set]
        if complaints:
            raise Unread(*complaints, partial=self)
        return self

    @property
    def row_topic(self) -> Text | None:
        """The expression that names the topic of a row, if it is one."""
        return self.topic.expr if isinstance(self.topic, RowTopic) else None


def _transactional(key: str) -> Complaint:
    message = f'"{key}" is of transactions, and there are none'
    return Complaint(message=message, hint="say delivery: exactly_once", at=(key, KEY))


__all__ = ["At", "KafkaSink", "KafkaSource", "Metadata", "Moment", "Offsets", "RowTopic"]
