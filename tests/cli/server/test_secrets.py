"""Secrets of pipelines are in no answer of a server or a job, in no log, and in no stored file.

The jobs use their secrets, and one is refused by a server that repeats them in its answer.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest

from headrace.cli.control import job_socket
from headrace.cli.control.api import build_routes
from headrace.cli.control.job_control import JobControl
from headrace.cli.server.server_folder import SERVER
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_process import run_headrace
from tests.support.cli.servers import LONGEST_S, ServedFolder, served_folder, until

pytestmark = pytest.mark.slow

TOKEN, WORD, PATH_PART = "t0ken-9f31c2", "w0rd-77aa+b1", "pa7h-5b0c4e"
SECRETS = {"TOKEN": TOKEN, "WORD": WORD, "PATH_PART": PATH_PART}
SHOWN = [
    form
    for value in SECRETS.values()
    for form in (value, quote(value, safe=""), json.dumps(value)[1:-1])
] + [base64.b64encode(f"me:{WORD}".encode()).decode()]
"""The forms in which a secret must not be there."""

PIPELINE = """\
name: NAME
sources: {numbers: {generate: {rate: 20/s, columns: {x: id}}}}
steps:
  named:
    from: numbers
    lookup:
      http:
        url: "http://127.0.0.1:PORT/${secret:PATH_PART}/KIND/{x}"
        headers: {Authorization: "Bearer ${secret:TOKEN}"}
      on: {x: x}
      add: {name: string}
      retries: 0
  also:
    from: named
    lookup:
      http: {url: "http://me:${secret:WORD}@127.0.0.1:PORT/KIND/{x}"}
      on: {x: x}
      add: {other: {column: name, type: string}}
      retries: 0
sinks: {out: {from: also, files: {path: NAME-out}}}
settings: {checkpoint: {every: 200ms}, restart: {strategy: fixed, delay: 300ms, attempts: 1000}}
"""
MISTAKES = (
    ("retries: 0", "retrys: 0"),
    ("on: {x: x}", "on: {y: y}"),
    ("headers: {Authorization:", "headers: [Authorization:"),
    ("/{x}", "/{z}"),
    ("http://127", "htp://127"),
    ('url: "', 'urls: "'),
)


@contextmanager
def repeating_server() -> Iterator[tuple[int, list[str]]]:
    """Yield the port of a server of names, and the credentials that it was given.

    Of the kind `bad` it gives no names, and repeats what it was sent.
    """
    given: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given.append(str(self.headers["authorization"]) + self.path)
            is_bad = "/bad/" in self.path
            answer = {"error": f"{self.headers} {self.path}"} if is_bad else {"name": "a"}
            body = json.dumps(answer).encode()
            self.send_response(503 if is_bad else 200, f"no {given[-1]}" if is_bad else None)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port, given
        finally:
            server.shutdown()
            thread.join()


def fetch(home: str, path: str, method: str = "GET", body: Mapping[str, Any] | None = None) -> str:
    """Return the status, the headers and the body of an answer from a socket."""
    connection = http.client.HTTPConnection("job", timeout=LONGEST_S)
    connection.sock = job_socket.connect_to_job(home, LONGEST_S)
    try:
        sent = None if body is None else json.dumps(body).encode()
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return f"{answer.status} {answer.headers}\n{answer.read().decode()}"
    finally:
        connection.close()


def find_secrets(text: str) -> list[str]:
    """Return the secrets that a text has."""
    return [form for form in SHOWN if form in text]


def list_job_paths() -> list[str]:
    """Return the paths of a job's routes."""
    routes = build_routes(cast(JobControl, None))
    return [each.path for each in routes if each.method == "GET" and "{" not in each.path]


def ask_all(folder: ServedFolder) -> dict[str, str]:
    """Return the answers of the server and of the jobs to all questions, and to bad requests."""
    server = Home(LocalDisk(), folder.folder.home, SERVER).folder
    paths = ["/v1/jobs", "/metrics", "/v1/history", "/v1/history/1", "/v1/operations/1", "/none"]
    answers = dict[str, str]()
    for name in ("good", "bad"):
        own = list_job_paths()
        paths += [f"/v1/jobs/{name}{path.removeprefix('/v1')}" for path in own]
        paths += [f"/v1/jobs/{name}{rest}" for rest in ("", "/log", "/pipeline", "/none")]
        job = Home(LocalDisk(), folder.folder.home, name).folder
        answers |= {f"{name} {path}": fetch(job, path) for path in own}
    return answers | {path: fetch(server, path) for path in paths}


def send_mistakes(folder: ServedFolder, text: str) -> dict[str, str]:
    """Return the answers to pipelines with mistakes, submitted and as upgrades."""
    server = Home(LocalDisk(), folder.folder.home, SERVER).folder
    answers = dict[str, str]()
    for wanted, mistake in MISTAKES:
        assert wanted in text
        broken = text.replace(wanted, mistake)
        for path in ("/v1/jobs", "/v1/jobs/good/upgrade"):
            body = {"file": str(folder.path / "x.yaml"), "text": broken}
            answers[f"{path} {mistake}"] = fetch(server, path, "POST", body)
        (folder.path / "broken.txt").write_text(broken)
        ran = run_headrace("validate", "broken.txt", cwd=folder.path)
        assert ran.returncode == 2
        answers[f"validate {mistake}"] = ran.stdout + ran.stderr
    return answers


def test_no_answer_and_no_file_has_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(f"HEADRACE_SECRET_{name}", value)
    with repeating_server() as (port, given), served_folder(tmp_path) as folder:
        good = PIPELINE.replace("PORT", str(port)).replace("KIND", "good").replace("NAME", "good")
        folder.write("good", good)
        folder.write("bad", good.replace("good", "bad"))
        folder.start()
        folder.until_checkpoint("good")
        log = Path(folder.folder.get_log_path("bad"))
        until(lambda: log.exists() and log.read_text().count('"restarting"') >= 3)
        sent = "".join(given)
        assert all(find_secrets(sent).count(value) for value in (TOKEN, PATH_PART, SHOWN[-1]))
        answers = ask_all(folder) | send_mistakes(folder, good)
        commands = (("why", "bad"), ("top", "bad"), ("logs", "bad"), ("jobs", "--json"))
        for command in (*commands, ("explain", "good.yaml"), ("jobs", "--history", "--json")):
            ran = run_headrace(*command, cwd=folder.path, timeout=LONGEST_S)
            answers[" ".join(command)] = ran.stdout + ran.stderr
        for file in [each for each in tmp_path.rglob("*") if each.is_file()]:
            with suppress(FileNotFoundError):  # the job writes checkpoints meanwhile
                answers[str(file)] = file.read_bytes().decode("latin-1")
    assert "503" in answers["logs bad"]
    assert answers["/v1/jobs/good/pipeline"].startswith("200")
    assert "${secret:TOKEN}" in answers["/v1/jobs/good/pipeline"]
    assert len([each for each in answers.values() if each.startswith("200")]) > 25
    assert {name: found for name, text in answers.items() if (found := find_secrets(text))} == {}
