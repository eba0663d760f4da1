"""The options `start` and `stop`: offsets or times at which reading a topic begins and ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

from headrace.connectors.kafka.names import topic_reading
from headrace.core.pipeline.diagnostics import (
    KEY,
    InvalidValue,
    ValueProblemCollector,
    make_expected_error,
    make_value_error,
)
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import read_or_collect
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import FieldReading, InvalidScalar, Json, ScalarReading
from headrace.core.types.lazy_dataclass import dataclass

OFFSET_PATTERN = re.compile(r"\d{1,18}", re.ASCII)
MAX_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A start or stop at the first record of each partition that is not older than a time.

    >>> str(TimeBound(datetime(2026, 1, 31, 8, tzinfo=UTC)))
    '{timestamp = 2026-01-31T08:00:00+00:00}'
    """

    time: datetime

    @property
    def ms(self) -> int:
        """The time in milliseconds since the epoch, as in Kafka's protocol."""
        return round(self.time.timestamp() * 1000)

    def __str__(self) -> str:
        return f"{{timestamp = {self.time.isoformat()}}}"


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """A start or stop at an offset in each of some partitions.

    >>> offsets = OffsetBounds({"": {0: 17}})
    >>> offsets.get_offset("any", 0), offsets.get_offset("any", 1), str(offsets)
    (17, None, '{offsets = {0: 17}}')
    """

    by_topic: Mapping[str, Mapping[int, int]]
    """Offsets by topic and partition; under the name "" those of the source's single topic."""
    keys: tuple[Text, ...] = field(default=(), compare=False)
    """The topics as written in the pipeline."""

    def get_offset(self, topic: str, partition: int) -> int | None:
        """Return the offset in a partition, if one is given."""
        return self.by_topic.get(topic, self.by_topic.get("", {})).get(partition)

    @property
    def topics(self) -> tuple[str, ...]:
        """The named topics; none for a source's single topic."""
        return tuple(name for name in self.by_topic if name)

    def __str__(self) -> str:
        whole = {name: dict(offsets) for name, offsets in self.by_topic.items()}
        text = str(whole.get("", whole)).replace("'", "")
        return f"{{offsets = {text}}}"


def _parse_time(text: Text) -> TimeBound:
    """Parse an ISO-8601 time; without a zone it is UTC."""
    if OFFSET_PATTERN.fullmatch(text):
        raise InvalidScalar("as in 2026-01-31T08:00:00Z")
    try:
        at = datetime.fromisoformat(text.reveal())
        return TimeBound(at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InvalidScalar from None


def _parse_offset(text: Text) -> int:
    if not OFFSET_PATTERN.fullmatch(text):
        raise InvalidScalar
    return int(text)


def _parse_partition(text: Text) -> int:
    if not OFFSET_PATTERN.fullmatch(text) or int(text) > MAX_PARTITION:
        raise InvalidScalar
    return int(text)


time_reading = ScalarReading("a time such as 2026-01-31T08:00:00Z", _parse_time)
offset_reading = ScalarReading(
    "an offset (a whole number from 0)", _parse_offset, {"type": "integer", "minimum": 0}
)
partition_reading = ScalarReading(
    "the number of a partition", _parse_partition, {"type": "integer", "minimum": 0}
)


class OffsetsReading(FieldReading):
    """Reads partitions and offsets, as in {0: 17}; with several topics, by topic."""

    def __init__(self) -> None:
        self.wanted = "partitions and offsets, as in {0: 17}, or by topic {orders: {0: 17}}"
        each: Json = {
            "type": "object",
            "additionalProperties": offset_reading.json,
            "minProperties": 1,
        }
        by_topic: Json = {"type": "object", "additionalProperties": each, "minProperties": 1}
        self.json = {"anyOf": [each, by_topic]}

    def read(self, value: object) -> OffsetBounds:
        if not isinstance(value, dict) or not value:
            raise make_expected_error(value, self.wanted)
        gathered = ValueProblemCollector()
        if not any(isinstance(inner, dict) for inner in value.values()):
            bounds = {"": _read_by_partition(value, gathered)}
            gathered.raise_if_any()
            return OffsetBounds(bounds)
        bounds = {}
        for name, inner in value.items():
            read_or_collect(gathered, topic_reading, name, name, KEY)
            if not isinstance(inner, dict) or not inner:
                gathered.add(
                    make_expected_error(inner, "partitions and offsets, as in {0: 17}"), name
                )
                continue
            bounds[str(name)] = _read_by_partition(inner, gathered, name)
        gathered.raise_if_any()
        return OffsetBounds(bounds, tuple(value))


def _read_by_partition(
    value: Mapping[Text, object], gathered: ValueProblemCollector, *at: Text
) -> dict[int, int]:
    found = {}
    for key, text in value.items():
        number = read_or_collect(gathered, partition_reading, key, *at, key, KEY)
        first = read_or_collect(gathered, offset_reading, text, *at, key)
        if isinstance(number, int) and isinstance(first, int):
            found[number] = first
    return found


BoundWord: TypeAlias = Literal["earliest", "latest"]


class BoundOptions(DocumentModel):
    """A position in each partition: one of these."""

    one_of = ("timestamp", "offsets")
    timestamp: Annotated[TimeBound | None, time_reading] = Field(
        None, description="At the first record that is not older; a time without a zone is in UTC."
    )
    offsets: Annotated[OffsetBounds | None, OffsetsReading()] = Field(
        None, description="At these offsets, by partition; with several topics, by topic."
    )


class BoundReading(FieldReading):
    """Reads a word, `{timestamp: ...}` or `{offsets: ...}`."""

    part = BoundOptions

    def __init__(self, *words: BoundWord) -> None:
        self.words = words
        self.wanted = f"{', '.join(words)}, {{timestamp: ...}} or {{offsets: ...}}"
        self.json = {"enum": list(words)}

    def read(self, value: object) -> BoundWord | TimeBound | OffsetBounds:
        if isinstance(value, dict):
            at = BoundOptions.model_validate(value)
            bounds = [each for each in (at.timestamp, at.offsets) if each is not None]
            if len(bounds) != 1:
                actual = "both" if bounds else "none"
                raise make_value_error(
                    value, f"wanted one of {' and '.join(BoundOptions.one_of)}, got {actual}"
                )
            return bounds[0]
        if isinstance(value, Text) and not value.secret:
            for word in self.words:
                if value == word:
                    return word
        raise make_expected_error(value, self.wanted, self._build_hint(value))

    def _build_hint(self, value: object) -> str:
        if not isinstance(value, Text) or value.secret:
            return ""
        try:
            time_reading.read(value)
        except InvalidValue:
            return ""
        return f'write {{timestamp: "{value}"}}'
