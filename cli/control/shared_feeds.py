"""Feeds of events, each of which runs once while anybody looks, whatever the number of viewers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from headrace.cli.control.event_streams import EventMailbox, StreamEvent, build_error_event
from headrace.cli.control.http_messages import RequestError, StreamedResponse
from headrace.core.api.taps import PROCESS_ENDS
from headrace.core.types.lazy_dataclass import dataclass

MAX_STREAMS = 100
RETRY_INTERVAL_S = 1.0
"""The time after which a feed that has failed is run again."""

Publish: TypeAlias = "Callable[[StreamEvent], None]"
Feed: TypeAlias = "Callable[[Publish], Coroutine[Any, Any, None]]"
"""A coroutine that publishes events until it is cancelled."""


@dataclass(slots=True)
class _FeedSubscribers:
    """The streams that get the events of a feed, and the task that runs it."""

    mailboxes: set[EventMailbox] = field(default_factory=set)
    latest: StreamEvent | None = None
    """The newest event, for a stream that comes later; rows are not repeated."""
    task: asyncio.Task[None] | None = None

    def publish(self, event: StreamEvent) -> None:
        """Pass an event to all streams of the feed."""
        self.latest = None if event.kind == "rows" else event
        for mailbox in self.mailboxes:
            mailbox.put(event)


@dataclass(slots=True)
class SharedFeeds:
    """The feeds that run, and the streams that get their events."""

    report_bug: Callable[[BaseException], None]
    max_feeds: int | None = None
    """The most feeds of all streams; None: as many as the streams want."""
    _feeds: dict[Hashable, _FeedSubscribers] = field(default_factory=dict)
    _streams: set[EventMailbox] = field(default_factory=set)

    def open_stream(self, feeds: Mapping[Hashable, Feed]) -> StreamedResponse:
        """Return the stream of the events of feeds. Raises RequestError.

        Each feed has a key: those of the same key are one, which runs while it has streams.
        """
        if len(self._streams) >= MAX_STREAMS:
            message = f"there are {MAX_STREAMS} streams already"
            raise RequestError(503, "busy", message, "close one, then try again")
        if self.max_feeds is not None and len(self._feeds.keys() | feeds.keys()) > self.max_feeds:
            message = f"the streams want more than {self.max_feeds} different jobs and taps"
            raise RequestError(503, "busy", message, "close one, then try again")
        return StreamedResponse(self._iterate(feeds))

    async def _iterate(self, feeds: Mapping[Hashable, Feed]) -> AsyncGenerator[bytes, None]:
        mailbox = EventMailbox()
        self._streams.add(mailbox)
        try:
            for key, feed in feeds.items():
                self._subscribe(mailbox, key, feed)
            while data := await mailbox.take():
                yield data
        finally:
            self._streams.discard(mailbox)
            for key in feeds:
                self._unsubscribe(mailbox, key)

    def close(self, *last: StreamEvent) -> None:
        """End all streams, after these events."""
        for mailbox in self._streams:
            for event in last:
                mailbox.put(event)
            mailbox.close()

    def _subscribe(self, mailbox: EventMailbox, key: Hashable, feed: Feed) -> None:
        subscribers = self._feeds.get(key)
        if subscribers is None:
            subscribers = self._feeds[key] = _FeedSubscribers()
            subscribers.task = asyncio.create_task(self._run(subscribers, feed))
        subscribers.mailboxes.add(mailbox)
        if subscribers.latest is not None:
            mailbox.put(subscribers.latest)

    async def _run(self, subscribers: _FeedSubscribers, feed: Feed) -> None:
        """Run a feed to its end; one that fails is run again, and reported once in a row."""
        while True:
            try:
                await feed(subscribers.publish)
                return
            except PROCESS_ENDS:
                raise
            except BaseException as error:  # also a panic of Polars, which is no Exception
                what = f"a bug in headrace: {type(error).__name__}"
                event = build_error_event("defect", what)
                if subscribers.latest != event:
                    self.report_bug(error)
                    subscribers.publish(event)
            await asyncio.sleep(RETRY_INTERVAL_S)

    def _unsubscribe(self, mailbox: EventMailbox, key: Hashable) -> None:
        subscribers = self._feeds.get(key)
        if subscribers is None:
            return
        subscribers.mailboxes.discard(mailbox)
        if not subscribers.mailboxes:
            del self._feeds[key]
            if subscribers.task is not None:
                subscribers.task.cancel()
