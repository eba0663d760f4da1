"""The options `start` and `stop`: offsets or times at which reading a topic begins and ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from headrace.connectors.kafka.names import topic
from headrace.core.pipeline.complaints import KEY, Gathered, Unread, wanted, wrong
from headrace.core.pipeline.fields import attempt
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Json, Reading, Reads, Unfit

OFFSET = re.compile(r"\d{1,18}", re.ASCII)
MAX_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Moment:
    """A start or stop at the first record of each partition that is not older than a time.

    >>> str(Moment(datetime(2026, 1, 31, 8, tzinfo=UTC)))
    '{timestamp = 2026-01-31T08:00:00+00:00}'
    """

    at: datetime

    @property
    def ms(self) -> int:
        """The time in milliseconds since the epoch, as in Kafka's protocol."""
        return round(self.at.timestamp() * 1000)

    def __str__(self) -> str:
        return f"{{timestamp = {self.at.isoformat()}}}"


@dataclass(frozen=True, slots=True)
class Offsets:
    """A start or stop at an offset in each of some partitions.

    >>> offsets = Offsets({"": {0: 17}})
    >>> offsets.of("any", 0), offsets.of("any", 1), str(offsets)
    (17, None, '{offsets = {0: 17}}')
    """

    by_topic: Mapping[str, Mapping[int, int]]
    """Offsets by topic and partition; under the name "" those of the source's single topic."""
    keys: tuple[Text, ...] = field(default=(), compare=False)
    """The topics as written in the pipeline."""

    def of(self, topic: str, partition: int) -> int | None:
        """Return the offset in a partition, if one is given."""
        return self.by_topic.get(topic, self.by_topic.get("", {})).get(partition)

    @property
    def topics(self) -> tuple[str, ...]:
        """The named topics; none for a source's single topic."""
        return tuple(name for name in self.by_topic if name)

    def __str__(self) -> str:
        whole = {name: dict(offsets) for name, offsets in self.by_topic.items()}
        said = str(whole.get("", whole)).replace("'", "")
        return f"{{offsets = {said}}}"


def _moment(text: Text) -> Moment:
    """Parse an ISO-8601 time; without a zone it is UTC."""
    if OFFSET.fullmatch(text):
        raise Unfit("as in 2026-01-31T08:00:00Z")
    try:
        at = datetime.fromisoformat(text.reveal())
        return Moment(at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise Unfit from None


def _offset(text: Text) -> int:
    if not OFFSET.fullmatch(text):
        raise Unfit
    return int(text)


def _partition(text: Text) -> int:
    if not OFFSET.fullmatch(text) or int(text) > MAX_PARTITION:
        raise Unfit
    return int(text)


moment = Reads("a time such as 2026-01-31T08:00:00Z", _moment)
offset = Reads("an offset (a whole number from 0)", _offset, {"type": "integer", "minimum": 0})
partition = Reads("the number of a partition", _partition, {"type": "integer", "minimum": 0})


class OffsetsReading(Reading):
    """Reads partitions and offsets, as in {0: 17}; with several topics, by topic."""

    def __init__(self) -> None:
        self.wanted = "partitions and offsets, as in {0: 17}, or by topic {orders: {0: 17}}"
        each: Json = {"type": "object", "additionalProperties": offset.json, "minProperties": 1}
        by_topic: Json = {"type": "object", "additionalProperties": each, "minProperties": 1}
        self.json = {"anyOf": [each, by_topic]}

    def read(self, value: object) -> Offsets:
        if not isinstance(value, dict) or not value:
            raise wanted(value, self.wanted)
        gathered = Gathered()
        if not any(isinstance(inner, dict) for inner in value.values()):
            found = {"": _by_partition(value, gathered)}
            gathered.check()
            return Offsets(found)
        found = {}
        for name, inner in value.items():
            attempt(gathered, topic, name, name, KEY)
            if not isinstance(inner, dict) or not inner:
                gathered.add(wanted(inner, "partitions and offsets, as in {0: 17}"), name)
                continue
            found[str(name)] = _by_partition(inner, gathered, name)
        gathered.check()
        return Offsets(found, tuple(value))


def _by_partition(value: Mapping[Text, object], gathered: Gathered, *at: Text) -> dict[int, int]:
    found = {}
    for key, text in value.items():
        number = attempt(gathered, partition, key, *at, key, KEY)
        first = attempt(gathered, offset, text, *at, key)
        if isinstance(number, int) and isinstance(first, int):
            found[number] = first
    return found


Edge: TypeAlias = Literal["earliest", "latest"]


class At(Part):
    """A position in each partition: one of these."""

    one_of = ("timestamp", "offsets")
    timestamp: Annotated[Moment | None, moment] = Field(
        None, description="At the first record that is not older; a time without a zone is in UTC."
    )
    offsets: Annotated[Offsets | None, OffsetsReading()] = Field(
        None, description="At these offsets, by partition; with several topics, by topic."
    )


class PlaceReading(Reading):
    """Reads a word, `{timestamp: ...}` or `{offsets: ...}`."""

    part = At

    def __init__(self, *words: Edge) -> None:
        self.words = words
        self.wanted = f"{', '.join(words)}, {{timestamp: ...}} or {{offsets: ...}}"
        self.json = {"enum": list(words)}

    def read(self, value: object) -> Edge | Moment | Offsets:
        if isinstance(value, dict):
            at = At.model_validate(value)
            given = [each for each in (at.timestamp, at.offsets) if each is not None]
            if len(given) != 1:
                came = "both" if given else "none"
                raise wrong(value, f"wanted one of {' and '.join(At.one_of)}, got {came}")
            return given[0]
        if isinstance(value, Text) and not value.secret:
            for word in self.words:
                if value == word:
                    return word
        raise wanted(value, self.wanted, self._longer(value))

    def _longer(self, value: object) -> str:
        if not isinstance(value, Text) or value.secret:
            return ""
        try:
            moment.read(value)
        except Unread:
            return ""
        return f'write {{timestamp: "{value}"}}'
