"""Parser of server-sent events, for clients that are loaded at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

MAX_INTEGER_DIGITS = 19
"""The digits from which an integer may be larger than 64 bits."""


def parse_exactly(data: bytes) -> Any:
    """Parse JSON whose numbers, when it is encoded again, are as they were.

    >>> orjson.dumps(parse_exactly(b'{"price":1.10,"id":12345678901234567890123}'))
    b'{"price":1.10,"id":12345678901234567890123}'
    """
    return json.loads(data, parse_float=orjson.Fragment, parse_int=_parse_integer)


def _parse_integer(text: str) -> int | orjson.Fragment:
    """Parse an integer, if it is none that orjson could not encode.

    >>> _parse_integer("-7")
    -7
    """
    return int(text) if len(text) < MAX_INTEGER_DIGITS else orjson.Fragment(text)


def parse_events(lines: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Parse the kind and the data of each event that has come completely.

    >>> list(parse_events([b": x\\n", b"\\n", b"event: job\\n", b'data: {"n":1}\\n', b"\\n"]))
    [('job', {'n': 1})]
    """
    parser = EventParser()
    for line in lines:
        if (event := parser.feed(line)) is not None:
            yield event


class EventParser:
    """Parser of a stream of events, by lines."""

    def __init__(self) -> None:
        self._kind, self._data = "", b""

    def feed(self, line: bytes) -> tuple[str, dict[str, Any]] | None:
        """Take the next line; return the kind and the data of the event that it completes."""
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        if name == b"event":
            self._kind = value.decode()
        elif name == b"data":
            self._data = value
        elif not line.strip() and self._data:
            kind, data = self._kind, self._data
            self._kind, self._data = "", b""
            return kind, parse_exactly(data)
        return None
