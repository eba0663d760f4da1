"""A real HTTP server for one test, with the answers that the test sets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, object]
"""An answer: its status, and its body, bytes as they are or any other value as JSON.

The body of a redirect is its target; without a status, the bytes are the whole answer.
"""


@dataclass(slots=True)
class Site:
    """The received requests, and the answer of each path."""

    answer: Callable[[str], Answer]
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    hangs: threading.Event = field(default_factory=threading.Event)
    """Answers that hang wait for this event."""
    port: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def hang(self) -> Answer:
        """Answer after the end of the test."""
        self.hangs.wait(600)
        return 503, None

    def came(self, path: str, headers: dict[str, str]) -> Answer:
        """Record a request."""
        with self._lock:
            self.asked.append(path)
            self.headers.append(headers)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self.answer(path)
        finally:
            with self._lock:
                self.at_once -= 1


@contextmanager
def serving(answer: Callable[[str], Answer]) -> Iterator[Site]:
    """Run a server that answers paths."""
    site = Site(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, said = site.came(self.path, dict(self.headers))
            if not status:
                assert isinstance(said, bytes)
                self.wfile.write(said)
                self.close_connection = True
                return
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            body = b"" if status == 204 else body
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", str(said))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Drop the log line."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore clients that have disconnected."""

    with Server(("127.0.0.1", 0), Handler) as server:
        site.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield site
        finally:
            site.hangs.set()
            server.shutdown()


def slow(seconds: float, answer: Answer) -> Answer:
    """Answer slowly."""
    time.sleep(seconds)
    return answer
