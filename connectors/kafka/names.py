"""Names of brokers and topics in a pipeline: parsed and validated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from headrace.core.pipeline.complaints import Gathered, Unread, wrong
from headrace.core.pipeline.fields import OneOrMany
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import SCALAR, Json, Reading, Reads, Unfit

BROKERS = (
    "One or more brokers, as `host:port`: a list, or a text with commas. One that answers suffices."
)

# The names of these options in other clients.
HABITS: Mapping[str, str] = {
    **dict.fromkeys(
        ("bootstrap_servers", "bootstrap.servers", "bootstrap", "servers", "hosts"), "brokers"
    ),
    **dict.fromkeys(("sasl", "ssl", "tls", "auth", "username", "password"), "security"),
}

BROKER = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_.-]+):(\d{1,5})", re.ASCII)
HOST = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
URL = re.compile(r"[A-Za-z][A-Za-z0-9+_.-]*://")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
LETTERS = "a topic has letters, digits, dots, _ and -, at most 249"
MAX_PORT = 65535


def _broker(text: Text) -> Text:
    found = BROKER.fullmatch(text)
    if found and 0 < int(found[2]) <= MAX_PORT:
        return text
    url = URL.match(text)
    if url:
        raise Unfit(f'did you mean "{text[url.end() :].rstrip("/")}"?')
    raise Unfit(f'did you mean "{text}:9092"?' if HOST.fullmatch(text) else "")


broker = Reads("host:port", _broker, {"type": "string"})


class BrokersReading(Reading):
    """Reads `host:port`, several separated by commas, or a list of them."""

    def __init__(self) -> None:
        self.wanted = "host:port, or a list of them"
        self.json: Json = {
            "oneOf": [{"type": "string"}, {"type": "array", "items": broker.json, "minItems": 1}]
        }
        self._list = OneOrMany(broker, self.wanted)

    def read(self, value: object) -> tuple[Text, ...]:
        if not isinstance(value, Text) or value.secret or "," not in value:
            return self._list.read(value)
        gathered, found, at = Gathered(), dict[str, Text](), 0
        for piece in value.split(","):
            start = at + len(piece) - len(piece.lstrip())
            one = Text(piece.strip(), value.scalar)
            try:
                broker.read(one)
            except Unread as unread:
                hint = unread.complaints[0].hint
                span = (start, start + max(1, len(one)))
                message = f'wanted {broker.wanted}, got "{one}"'
                gathered.add(wrong(value, message, hint, span))
            found[str(one)] = one
            at += len(piece) + 1
        gathered.check()
        return tuple(found.values())


def _topic(text: Text) -> Text:
    if not TOPIC.fullmatch(text) or text in (".", ".."):
        likes = set(text) & set("*[(^$")
        raise Unfit('a source reads several by pattern: "..."' if likes else LETTERS)
    return text


def _pattern(text: Text) -> Text:
    if not text:
        raise Unfit
    try:
        re.compile(text.reveal())
    except re.error as error:
        at = error.pos or 0
        raise wrong(
            text, f"not a regular expression: {error.msg}", "", (at, min(at + 1, len(text)))
        ) from None
    return text


topic = Reads("the name of a topic", _topic, SCALAR)
pattern = Reads("a regular expression such as orders[.].*", _pattern)

Brokers = Annotated[tuple[Text, ...], BrokersReading()]
TopicName = Annotated[Text, topic]
TopicNames = Annotated[tuple[Text, ...], OneOrMany(topic, "a topic, or a list of topics")]
TopicPattern = Annotated[Text, pattern]
