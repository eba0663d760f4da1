"""The limits of lookups, which hold over all worker processes of a job."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.cli.command_process import run_headrace

ENRICHED = """\
name: enriched
sources:
  numbers: {files: {path: 'in/*.jsonl'}, schema: {id: bigint}}
steps:
  named:
    from: numbers
    lookup:
      http: {url: "URL/{id}"}
      on: {id: id}
      add: {name: string}
      concurrency: CALLS
sinks:
  out: {from: named, files: {path: out}}
settings: {workers: 2}
"""


class CountingServer(ThreadingHTTPServer):
    """Counts the requests that are in flight at a time."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), AnswerRequest)
        self.lock = threading.Lock()
        self.in_flight = 0
        self.peak = 0


class AnswerRequest(BaseHTTPRequestHandler):
    """Answers each request after a while."""

    server: CountingServer

    def do_GET(self) -> None:
        server = self.server
        with server.lock:
            server.in_flight += 1
            server.peak = max(server.peak, server.in_flight)
        time.sleep(0.05)
        with server.lock:
            server.in_flight -= 1
        body = json.dumps({"name": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize("calls", [2, 5])
def test_workers_share_the_concurrent_calls_of_a_lookup(tmp_path: Path, calls: int) -> None:
    (tmp_path / "in").mkdir()
    for file in range(4):
        lines = (f'{{"id": {file * 20 + row}}}\n' for row in range(20))
        (tmp_path / "in" / f"{file}.jsonl").write_text("".join(lines))
    with CountingServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        text = ENRICHED.replace("URL", url).replace("CALLS", str(calls))
        (tmp_path / "job.yaml").write_text(text)
        done = run_headrace("run", "job.yaml", cwd=tmp_path)
        server.shutdown()
    assert done.returncode == 0, done.stderr
    written = "".join(file.read_text() for file in (tmp_path / "out").glob("*.jsonl"))
    names = {json.loads(line)["name"] for line in written.splitlines()}
    assert names == {f"/{number}" for number in range(80)}
    assert server.peak <= calls
