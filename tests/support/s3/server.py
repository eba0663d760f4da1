"""A real S3 server on this machine, moto's, in a process of its own, and how it is reached."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.state.storage.remote.bucket import RequestTimeouts

BUCKET = "bucket"
SOON = RequestTimeouts(connect_s=1.0, request_s=1.0, retry_s=0.5, pause_s=0.05)
"""Time-outs of tests for a failing server."""


@dataclass(frozen=True, slots=True)
class Server:
    """It listens there, and has one bucket."""

    port: int
    process: subprocess.Popen[str]

    def environment(self, port: int | None = None) -> dict[str, str]:
        """Return the environment for this server, perhaps through a proxy's port."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "THE-SECRET-OF-TESTS",
        }


@contextmanager
def serving() -> Iterator[Server]:
    """Have one, with an empty bucket."""
    command = [sys.executable, "-m", "moto.server", "-p", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        # The server logs every request, and blocks if its log is not read.
        listening = threading.Thread(target=deque, args=(process.stderr, 0), daemon=True)
        try:
            said = next(line for line in process.stderr if "Running on" in line)
            found = re.search(r":(\d+)\s", said)
            assert found, said
            listening.start()
            server = Server(int(found[1]), process)
            make_bucket(server.port)
            yield server
        finally:
            process.kill()
            if listening.ident is not None:
                listening.join()


def make_bucket(port: int, name: str = BUCKET) -> None:
    """A bucket that is empty."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", data=b"", method="PUT")
    urllib.request.urlopen(request).read()
