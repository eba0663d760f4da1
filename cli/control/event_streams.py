"""Server-sent events: their encoding, and what a viewer of a stream has not received yet.

A viewer that reads slowly costs no memory: a later event takes the place of an earlier one of the
same kind and key, and of rows only the newest wait. All others are counted as dropped.
"""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Any

import orjson

from headrace.core.api.taps import TapRequest
from headrace.core.types.lazy_dataclass import dataclass

HEARTBEAT_S = 15.0
"""The time after which a stream without events sends a comment."""

HEARTBEAT = b": nothing new\n\n"
MAX_WAITING_ROWS = 100
MAX_WAITING_BYTES = 2**20
"""The most that waits for a viewer, of the rows of one tap."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event: its kind, its data, and the key of what it is about, such as a tap."""

    kind: str
    data: dict[str, Any]
    key: str = ""
    encoded: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        head = f"event: {self.kind}\ndata: ".encode()
        data = orjson.dumps(self.data, option=orjson.OPT_UTC_Z)
        object.__setattr__(self, "encoded", head + data + b"\n\n")


def build_error_event(
    code: str, message: str, hint: str = "", tap: TapRequest | None = None
) -> StreamEvent:
    """Build the event of an error, which may be about a tap."""
    document = tap.build_document() if tap else {"from": None, "where": None}
    data = {"code": code, "message": message, "hint": hint, **document}
    return StreamEvent("error", data, tap.key if tap else "")


def merge_rows(before: StreamEvent, after: StreamEvent) -> StreamEvent:
    """Return one event for the rows of two of the same tap, as far as they may wait.

    >>> before, after = (StreamEvent("rows", {"rows": [{"x": x}], "dropped": 2}) for x in (1, 2))
    >>> merge_rows(before, after).data
    {'rows': [{'x': 1}, {'x': 2}], 'dropped': 4}
    """
    rows = [*before.data["rows"], *after.data["rows"]]
    dropped = before.data["dropped"] + after.data["dropped"]
    if len(before.encoded) + len(after.encoded) > MAX_WAITING_BYTES:
        waiting = after.data["rows"]
    else:
        waiting = rows[-MAX_WAITING_ROWS:]
    dropped += len(rows) - len(waiting)
    return StreamEvent("rows", {**after.data, "rows": waiting, "dropped": dropped}, after.key)


class EventMailbox:
    """The events that one viewer has not received yet."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, str], StreamEvent] = {}
        self._has_news = asyncio.Event()
        self._is_closed = False

    def put(self, event: StreamEvent) -> None:
        """Add an event; it takes the place of an earlier one of its kind and key."""
        place = event.kind, event.key
        before = self._events.pop(place, None)
        if before is not None and event.kind == "rows":
            event = merge_rows(before, event)
        self._events[place] = event
        self._has_news.set()

    def close(self) -> None:
        """End the stream after the events that wait."""
        self._is_closed = True
        self._has_news.set()

    async def take(self) -> bytes:
        """Wait for events, and return them encoded; empty at the end of the stream."""
        if not self._is_closed:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._has_news.wait()
            except TimeoutError:
                return HEARTBEAT
        self._has_news.clear()
        events, self._events = self._events, {}
        return b"".join(event.encoded for event in events.values())
