"""Names of brokers and topics in a pipeline: parsed and validated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from headrace.core.pipeline.diagnostics import InvalidValue, ValueProblemCollector, make_value_error
from headrace.core.pipeline.fields import OneOrManyReading
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    SCALAR_SCHEMA,
    FieldReading,
    InvalidScalar,
    Json,
    ScalarReading,
)

BROKERS_HELP = (
    "One or more brokers, as `host:port`: a list, or a string separated by commas. "
    "One reachable broker is enough."
)

# The names of these options in other clients.
COMMON_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(
        ("bootstrap_servers", "bootstrap.servers", "bootstrap", "servers", "hosts"), "brokers"
    ),
    **dict.fromkeys(("sasl", "ssl", "tls", "auth", "username", "password"), "security"),
}

BROKER_PATTERN = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_.-]+):(\d{1,5})", re.ASCII)
HOST_PATTERN = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
URL_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+_.-]*://")
TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
TOPIC_HINT = "a topic has letters, digits, dots, _ and -, at most 249"
MAX_PORT = 65535


def _check_broker(text: Text) -> Text:
    found = BROKER_PATTERN.fullmatch(text)
    if found and 0 < int(found[2]) <= MAX_PORT:
        return text
    url = URL_SCHEME.match(text)
    if url:
        raise InvalidScalar(f'did you mean "{text[url.end() :].rstrip("/")}"?')
    raise InvalidScalar(f'did you mean "{text}:9092"?' if HOST_PATTERN.fullmatch(text) else "")


broker_reading = ScalarReading("host:port", _check_broker, {"type": "string"})


class BrokersReading(FieldReading):
    """Reads `host:port`, several separated by commas, or a list of them."""

    def __init__(self) -> None:
        self.wanted = "host:port, or a list of them"
        self.json: Json = {
            "oneOf": [
                {"type": "string"},
                {"type": "array", "items": broker_reading.json, "minItems": 1},
            ]
        }
        self._list = OneOrManyReading(broker_reading, self.wanted)

    def read(self, value: object) -> tuple[Text, ...]:
        if not isinstance(value, Text) or value.secret or "," not in value:
            return self._list.read(value)
        gathered, names, at = ValueProblemCollector(), dict[str, Text](), 0
        for piece in value.split(","):
            start = at + len(piece) - len(piece.lstrip())
            one = Text(piece.strip(), value.scalar)
            try:
                broker_reading.read(one)
            except InvalidValue as unread:
                hint = unread.problems[0].hint
                span = (start, start + max(1, len(one)))
                message = f'wanted {broker_reading.wanted}, got "{one}"'
                gathered.add(make_value_error(value, message, hint, span))
            names[str(one)] = one
            at += len(piece) + 1
        gathered.raise_if_any()
        return tuple(names.values())


def _check_topic(text: Text) -> Text:
    if not TOPIC_PATTERN.fullmatch(text) or text in (".", ".."):
        likes = set(text) & set("*[(^$")
        raise InvalidScalar('a source reads several by pattern: "..."' if likes else TOPIC_HINT)
    return text


def _check_pattern(text: Text) -> Text:
    if not text:
        raise InvalidScalar
    try:
        re.compile(text.reveal())
    except re.error as error:
        at = error.pos or 0
        raise make_value_error(
            text, f"not a regular expression: {error.msg}", "", (at, min(at + 1, len(text)))
        ) from None
    return text


topic_reading = ScalarReading("the name of a topic", _check_topic, SCALAR_SCHEMA)
pattern_reading = ScalarReading("a regular expression such as orders[.].*", _check_pattern)

Brokers = Annotated[tuple[Text, ...], BrokersReading()]
TopicName = Annotated[Text, topic_reading]
TopicNames = Annotated[
    tuple[Text, ...], OneOrManyReading(topic_reading, "a topic, or a list of topics")
]
TopicPattern = Annotated[Text, pattern_reading]
