"""Thirty viewers of a real server that do not read: neither it nor its job pays for them."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.cli.control.event_parser import parse_events
from tests.support.cli.servers import ServedFolder, served_folder, until

LONGEST_S = 60.0
VIEWERS = 30
TEXT = """\
name: a
sources:
  numbers: {generate: {rate: 1000/s, columns: {x: id, text: "repeat('x', 5000)"}}}
steps:
  even: {from: numbers, where: x % 2 = 0}
sinks:
  out: {from: even, files: {path: out}}
settings: {checkpoint: {every: 200ms}}
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ServedFolder]:
    with served_folder(tmp_path) as folder:
        yield folder


def open_stream(port: int, token: str, where: str, *, reads: bool) -> socket.socket:
    """Send a request for rows; a viewer that does not read has a small window."""
    connection = socket.socket()
    if not reads:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(LONGEST_S)
    connection.connect(("127.0.0.1", port))
    taps = [{"from": "even", "where": where}, {"from": "numbers"}]
    body = json.dumps({"jobs": True, "job": "a", "taps": taps}).encode()
    head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    length = f"Content-Length: {len(body)}\r\n\r\n"
    connection.sendall(f"POST /v1/events HTTP/1.0\r\n{head}{length}".encode() + body)
    return connection


def read_memory(pid: int) -> int:
    """The resident memory of a process, in MB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def test_viewers_that_do_not_read_cost_no_memory(home: ServedFolder) -> None:
    home.write("a", TEXT)
    server = home.start("--http", "0", "--read-only-token")
    job = home.until_checkpoint("a")
    urls = until(
        lambda: len(u := re.findall(r"127\.0\.0\.1:(\d+)/#token=(\S+)", home.printed())) == 2 and u
    )
    port, viewer = int(urls[1][0]), urls[1][1]
    before = read_memory(server.pid)
    with ExitStack() as stack:
        for number in range(VIEWERS):
            slow = open_stream(port, viewer, f"x % {number + 2} = 0", reads=False)
            stack.enter_context(slow)
        reader = stack.enter_context(open_stream(port, viewer, "x % 10 = 0", reads=True))
        numbers: list[int] = []
        dropped = 0
        for kind, data in parse_events(stack.enter_context(reader.makefile("rb"))):
            assert kind in ("jobs", "job", "rows"), data
            if kind == "rows" and data["from"] == "even":
                numbers += [row["x"] for row in data["rows"]]
            elif kind == "rows":
                dropped += data["dropped"]
            if len(numbers) > 200 and dropped:
                break
        assert all(number % 10 == 0 for number in numbers)
        assert numbers == sorted(set(numbers))
        assert read_memory(server.pid) - before < 100
        assert home.client.fetch_job("a")["pid"] == job["pid"]
    assert home.end(server) == 0
