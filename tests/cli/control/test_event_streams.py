"""What a viewer gets of a stream: everything while it reads, and the newest of it when it lags."""

from __future__ import annotations

import asyncio

import pytest

from headrace.cli.control.event_parser import parse_events
from headrace.cli.control.event_streams import (
    MAX_WAITING_BYTES,
    MAX_WAITING_ROWS,
    EventMailbox,
    StreamEvent,
    build_error_event,
)
from headrace.cli.control.http_messages import RequestError
from headrace.cli.control.shared_feeds import MAX_STREAMS, Publish, SharedFeeds
from headrace.cli.control.stream_request import parse_stream_request
from headrace.core.api.taps import TapRequest
from headrace.core.testing.simulated_loop import SimulatedLoop


def read(data: bytes) -> list[tuple[str, dict[str, object]]]:
    """The events of a stream."""
    return list(parse_events(data.splitlines(keepends=True)))


def rows(*numbers: int, key: str = "clean", dropped: int = 0) -> StreamEvent:
    """An event of rows."""
    return StreamEvent("rows", {"rows": [{"x": x} for x in numbers], "dropped": dropped}, key)


def test_a_viewer_that_lags_gets_the_newest_figures_once() -> None:
    async def look() -> bytes:
        mailbox = EventMailbox()
        for number in range(1000):
            mailbox.put(StreamEvent("job", {"number": number}))
        mailbox.put(build_error_event("not_running", "gone"))
        return await mailbox.take()

    (first, figures), (second, error) = read(asyncio.run(look()))
    assert (first, figures) == ("job", {"number": 999})
    assert (second, error["code"]) == ("error", "not_running")


def test_rows_that_a_viewer_does_not_take_are_counted() -> None:
    async def look() -> bytes:
        mailbox = EventMailbox()
        for number in range(500):
            mailbox.put(rows(number, dropped=2))
            mailbox.put(rows(number, key="raw"))
        return await mailbox.take()

    (_, clean), (_, raw) = read(asyncio.run(look()))
    newest = [{"x": x} for x in range(500 - MAX_WAITING_ROWS, 500)]
    assert clean == {"rows": newest, "dropped": 500 * 2 + 500 - MAX_WAITING_ROWS}
    assert raw == {"rows": newest, "dropped": 500 - MAX_WAITING_ROWS}


def test_large_rows_that_wait_are_bounded_too() -> None:
    async def look() -> bytes:
        mailbox = EventMailbox()
        for _ in range(50):
            wide = {"rows": [{"text": "x" * (MAX_WAITING_BYTES // 5)}], "dropped": 0}
            mailbox.put(StreamEvent("rows", wide, "clean"))
        return await mailbox.take()

    data = asyncio.run(look())
    assert len(data) < 2 * MAX_WAITING_BYTES
    ((_, found),) = read(data)
    waiting, dropped = found["rows"], found["dropped"]
    assert isinstance(waiting, list)
    assert isinstance(dropped, int)
    assert len(waiting) + dropped == 50


def test_a_feed_runs_once_for_all_viewers_and_ends_with_the_last() -> None:
    log: list[str] = []

    async def feed(publish: Publish) -> None:
        log.append("begins")
        try:
            publish(StreamEvent("job", {"number": 1}))
            await asyncio.Event().wait()
        finally:
            log.append("ends")

    async def look() -> list[bytes]:
        feeds = SharedFeeds(lambda error: None)
        streams = [feeds.open_stream({"job": feed}).chunks for _ in range(3)]
        found = [await anext(stream) for stream in streams]
        for stream in streams:
            assert "ends" not in log
            await stream.aclose()
            await asyncio.sleep(0)
        return found

    assert [read(data) for data in asyncio.run(look())] == [[("job", {"number": 1})]] * 3
    assert log == ["begins", "ends"]


def test_a_stream_ends_after_its_last_event_when_feeds_are_closed() -> None:
    async def look() -> bytes:
        feeds = SharedFeeds(lambda error: None)
        stream = feeds.open_stream({}).chunks
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        feeds.close(build_error_event("ended", "orders has ended"))
        data = await reading
        assert [chunk async for chunk in stream] == []
        return data

    ((_, error),) = read(asyncio.run(look()))
    assert error["message"] == "orders has ended"


def test_a_feed_that_fails_is_reported_and_its_viewers_are_told() -> None:
    bugs: list[BaseException] = []

    async def feed(publish: Publish) -> None:
        raise ZeroDivisionError

    async def look() -> bytes:
        return await anext(SharedFeeds(bugs.append).open_stream({"job": feed}).chunks)

    ((_, error),) = read(asyncio.run(look()))
    assert error["code"] == "defect"
    assert [type(bug) for bug in bugs] == [ZeroDivisionError]


def test_there_are_only_so_many_streams() -> None:
    async def look() -> None:
        feeds = SharedFeeds(lambda error: None)
        reading = [
            asyncio.ensure_future(anext(feeds.open_stream({}).chunks)) for _ in range(MAX_STREAMS)
        ]
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="streams already"):
            feeds.open_stream({})
        feeds.close()
        await asyncio.gather(*reading, return_exceptions=True)

    asyncio.run(look())


def test_streams_share_a_limit_of_different_feeds() -> None:
    async def feed(publish: Publish) -> None:
        publish(StreamEvent("job", {}))
        await asyncio.Event().wait()

    async def look() -> None:
        feeds = SharedFeeds(lambda error: None, max_feeds=3)
        first = feeds.open_stream({"a": feed, "b": feed}).chunks
        await anext(first)
        with pytest.raises(RequestError, match="more than 3 different jobs and taps") as raised:
            feeds.open_stream({"a": feed, "c": feed, "d": feed})
        assert (raised.value.status, raised.value.code) == (503, "busy")
        second = feeds.open_stream({"a": feed, "b": feed, "c": feed}).chunks
        await anext(second)
        await second.aclose()
        await first.aclose()
        await anext(feeds.open_stream({"c": feed, "d": feed, "e": feed}).chunks)

    asyncio.run(look())


def test_a_feed_that_has_failed_is_run_again() -> None:
    bugs: list[BaseException] = []
    runs: list[int] = []

    async def feed(publish: Publish) -> None:
        runs.append(len(runs))
        if len(runs) <= 3:
            raise ZeroDivisionError
        publish(StreamEvent("job", {"number": len(runs)}))
        await asyncio.Event().wait()

    async def look() -> list[bytes]:
        stream = SharedFeeds(bugs.append).open_stream({"job": feed}).chunks
        return [await anext(stream), await anext(stream)]

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        failed, figures = runner.run(look())
    assert [kind for kind, _ in read(failed)] == ["error"]
    assert read(figures) == [("job", {"number": 4})]
    assert len(bugs) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"job": 1}, "job: wanted the name of a job, or null"),
        ({"jobs": "yes"}, "jobs: wanted true or false"),
        ({"job": "a", "tap": []}, 'there is no "tap"'),
        ({"job": "a", "taps": {}}, "taps: wanted a list of at most 32"),
        ({"job": "a", "taps": [{"from": "x"}] * 33}, "taps: wanted a list of at most 32"),
        (
            {"job": "a", "taps": ["x"]},
            'taps: wanted objects such as {"from": "clean", "where": null}',
        ),
        ({"job": "a", "taps": [{}]}, "from: wanted the name of a source or step"),
        ({"job": "a", "taps": [{"from": "x", "when": ""}]}, 'there is no "when"'),
        (
            {"job": "a", "taps": [{"from": "x", "where": "y" * 10_001}]},
            "where: wanted a condition of at most 10000 characters, or null",
        ),
    ],
)
def test_a_request_that_is_not_understood_is_rejected(
    body: dict[str, object], message: str
) -> None:
    with pytest.raises(RequestError) as raised:
        parse_stream_request(body)
    assert (raised.value.status, raised.value.message) == (400, message)


def test_a_tap_that_is_wanted_twice_is_one() -> None:
    taps = [{"from": "x"}, {"from": "x", "where": None}, {"from": "x", "where": " "}]
    assert parse_stream_request({"job": "a", "taps": taps}).taps == (TapRequest("x"),)
