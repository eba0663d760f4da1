"""What is between a job and its bucket: passes requests on, and does to some what networks do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, TypeAlias

Harm: TypeAlias = Literal[
    "", "no connection", "cut", "unheard", "silence", "half", "garbled", "503", "403", "404"
]
"""The connection is closed before a request, in the middle of it, or after it; no answer comes;
half of it does; something else does; or the server refuses the request."""

SECRET = "A-SECRET-THAT-A-SERVER-REPEATS"
SAID = {
    "503": ("503 Service Unavailable", f"<Error><Code>SlowDown</Code><Key>{SECRET}</Key></Error>"),
    "403": ("403 Forbidden", f"<Error><Code>AccessDenied</Code><Key>{SECRET}</Key></Error>"),
    "404": ("404 Not Found", f"<Error><Code>NoSuchBucket</Code><Key>{SECRET}</Key></Error>"),
}


@dataclass(slots=True)
class Proxy:
    """A listening proxy. `harm` decides the harm to a request by its method and path."""

    port: int
    harm: Callable[[str, str], Harm] = lambda method, path: ""
    asked: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def first(self, harm: Harm, what: str, times: int = 1) -> None:
        """Harm the next `times` requests that begin with `what`, such as "PUT manifests/"."""
        left = [harm] * times

        def decide(method: str, path: str) -> Harm:
            verb, _, part = what.partition(" ")
            return left.pop() if left and method == verb and part in path else ""

        self.harm = decide


@contextmanager
def between(server: int) -> Iterator[Proxy]:
    """Have one in front of that port."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if self.raw_requestline and self.parse_request():
                self.close_connection = True
                with suppress(OSError):
                    self._pass_on()

        def _pass_on(self) -> None:
            proxy.asked.append(f"{self.command} {self.path}")
            harm = proxy.harm(self.command, self.path)
            if harm == "no connection":
                return
            if harm == "silence":
                proxy.over.wait(30)
                return
            length = int(self.headers.get("Content-Length") or 0)
            if harm == "cut":
                self.rfile.read(length // 2)
                return
            body = self.rfile.read(length)
            if harm in SAID:
                status, said = SAID[harm]
                head = f"HTTP/1.1 {status}\r\nContent-Length: {len(said)}\r\n\r\n"
                self.wfile.write(f"{head}{said}".encode())
                return
            status_line, answer = self._answer(body)
            if harm == "unheard":
                return
            if harm == "half":
                answer = answer[: len(answer) // 2]
            elif harm == "garbled":
                answer = answer[:-1] + bytes([answer[-1] ^ 1])
            self.wfile.write(status_line + answer)

        def _answer(self, body: bytes) -> tuple[bytes, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", server, timeout=30)
            connection.request(self.command, self.path, body, dict(self.headers))
            response = connection.getresponse()
            data = response.read()
            connection.close()
            lines = [f"HTTP/1.1 {response.status} {response.reason}"]
            lines += [f"{k}: {v}" for k, v in response.getheaders() if k.lower() != "connection"]
            return ("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode(), data

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        proxy = Proxy(listening.server_address[1])
        serving = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield proxy
        finally:
            proxy.over.set()
            listening.shutdown()
            serving.join()
