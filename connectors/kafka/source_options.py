"""The options of `kafka:` as a source in the pipeline document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from headrace.connectors.kafka.names import (
    BROKERS_HELP,
    COMMON_ALIASES,
    Brokers,
    TopicName,
    TopicNames,
    TopicPattern,
)
from headrace.connectors.kafka.offset_bounds import BoundReading, BoundWord, OffsetBounds, TimeBound
from headrace.connectors.kafka.security import SECURITY_HELP, Security
from headrace.core.pipeline.diagnostics import KEY, InvalidValue, ValueProblem
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.settings import interval_reading
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import ColumnName, InvalidScalar, ScalarReading, choice_of

Isolation = Literal["read_committed", "read_uncommitted"]
OnMissing = Literal["fail", "earliest", "latest"]

TOPIC_KEYS = ("topic", "topics", "pattern")
SOURCE_ALIASES: Mapping[str, str] = {
    **COMMON_ALIASES,
    **dict.fromkeys(("auto_offset_reset", "auto.offset.reset", "offset", "from"), "start"),
    **dict.fromkeys(("group_id", "group.id", "consumer_group"), "group"),
    **dict.fromkeys(("isolation_level", "isolation.level"), "isolation"),
    **dict.fromkeys(("end", "until", "to"), "stop"),
}


def _check_group(text: Text) -> Text:
    if not text.strip() or not text.isprintable() or len(text) > 249:
        raise InvalidScalar
    return text


class Metadata(DocumentModel):
    """Columns of a record's metadata: the name that each gets."""

    topic: ColumnName | None = Field(None, description="The topic: a string.")
    partition: ColumnName | None = Field(None, description="The number of the partition: an int.")
    offset: ColumnName | None = Field(None, description="The offset in the partition: a bigint.")
    timestamp: ColumnName | None = Field(
        None, description="The record's timestamp, which may be the `event_time` of the source."
    )
    key: ColumnName | None = Field(None, description="The key, as text; null if there is none.")
    headers: ColumnName | None = Field(
        None,
        description="The headers, in order: `array<struct<key: string, value: string>>`.",
    )

    def check_combination(self) -> None:
        if complaints := tuple(_find_duplicates(self)):
            raise InvalidValue(*complaints, partial=self)

    @property
    def requested_columns(self) -> dict[str, Text]:
        """The requested metadata with the names of their columns, in the order of this class."""
        named = {key: getattr(self, key) for key in type(self).model_fields}
        return {key: name for key, name in named.items() if name is not None}


def _find_duplicates(metadata: Metadata) -> Iterator[ValueProblem]:
    seen: dict[str, str] = {}
    for key, name in metadata.requested_columns.items():
        if name in seen:
            message = f'the column "{name}" already holds {seen[name]}'
            yield ValueProblem(name, message=message, at=(key,))
        seen[str(name)] = key


class KafkaSource(DocumentModel):
    """The records of topics, each partition a split; reading resumes from the last checkpoint."""

    origin = TOPIC_KEYS
    one_of = TOPIC_KEYS
    key_aliases = SOURCE_ALIASES

    brokers: Brokers = Field(description=BROKERS_HELP)
    topic: TopicName | None = Field(None, description="The topic to read.")
    topics: TopicNames | None = Field(
        None, description="Several topics, whose rows have the same columns."
    )
    pattern: TopicPattern | None = Field(
        None,
        description="All topics whose whole name matches a regular expression, also those "
        "created later (`discover`).",
    )
    start: Annotated[BoundWord | TimeBound | OffsetBounds, BoundReading("earliest", "latest")] = (
        Field(
            "earliest",
            description="Where the first run starts: `earliest`, `latest`, `{timestamp: T}` or "
            "`{offsets: {0: 17}}`, by partition, and with several topics by topic first; a "
            "partition "
            "that is not named starts at its earliest record. Later runs resume from the last "
            "checkpoint, and new partitions are read from their earliest record.",
        )
    )
    stop: Annotated[Literal["latest"] | TimeBound | OffsetBounds | None, BoundReading("latest")] = (
        Field(
            None,
            description="Where reading stops; by default it does not. `latest` is the end of each "
            "partition when the job first starts; `{timestamp: T}` and `{offsets: {0: 17}}` stop "
            "before that record, and at `latest` if that is earlier.",
        )
    )
    isolation: Annotated[Isolation, choice_of("read_committed", "read_uncommitted")] = Field(
        "read_committed",
        description="`read_committed` skips records of open and aborted transactions.",
    )
    on_missing_offset: Annotated[OnMissing, choice_of("fail", "earliest", "latest")] = Field(
        "fail",
        description="What to do if the records to resume from no longer exist: `fail`, or "
        "resume at the `earliest` or `latest` record.",
    )
    metadata: Metadata = Field(
        Metadata(),
        description="Columns of a record's metadata, as in `{offset: at_offset}`, in addition to "
        "those of `schema`.",
    )
    discover: Annotated[timedelta | None, interval_reading] = Field(
        timedelta(minutes=1),
        description="How often to look for new partitions (and topics of `pattern`); or `never`.",
    )
    group: Annotated[Text | None, ScalarReading("the name of a group", _check_group)] = Field(
        None,
        description="The consumer group to which positions are committed after a checkpoint, "
        "for tools that show lag; by default named after pipeline and source. headrace itself "
        "never reads from it.",
    )
    security: Security = Field(Security(), description=SECURITY_HELP)

    def check_combination(self) -> None:
        if complaints := tuple(_find_conflicts(self)):
            raise InvalidValue(*complaints, partial=self)

    @property
    def topics_text(self) -> str:
        """The topics in words: `topic bids`."""
        if self.topic is not None:
            return f"topic {self.topic}"
        if self.topics is not None:
            return f"topics {', '.join(map(str, self.topics))}"
        return f"topics like {self.pattern}"


def _find_conflicts(source: KafkaSource) -> Iterator[ValueProblem]:
    given_keys = [key for key in TOPIC_KEYS if getattr(source, key) is not None]
    if not given_keys:
        yield ValueProblem(message=f"wanted one of {', '.join(TOPIC_KEYS)}, got none")
    for key in given_keys[1:]:
        message = f'"{key}" does not go with "{given_keys[0]}"'
        yield ValueProblem(message=message, hint="give only one of them", at=(key, KEY))
    for key in ("start", "stop"):
        place = getattr(source, key)
        if isinstance(place, OffsetBounds):
            yield from _check_offset_topics(source, key, place)


def _check_offset_topics(
    source: KafkaSource, key: str, offsets: OffsetBounds
) -> Iterator[ValueProblem]:
    """Check that offsets name their topics if there are several, and only topics that are read."""
    if not offsets.topics and source.topic is None:
        message = "wanted offsets by topic, got those of one"
        yield ValueProblem(message=message, hint="as in {orders: {0: 17}}", at=(key, "offsets"))
    known = source.topics or ((source.topic,) if source.topic is not None else ())
    for name in offsets.keys:
        if known and name not in known:
            message = f'the topic "{name}" is not read'
            hint = f"the topics read are {', '.join(map(str, known))}"
            yield ValueProblem(message=message, hint=hint, at=(key, "offsets", name, KEY))
