"""`headrace run --http`: a port that is taken, and a process whose health is asked for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import LONGEST_S, RUN, ended, limited, met

PIPELINE = """\
name: counted
sources:
  numbers: {generate: {rate: 1000/s, columns: {x: id}}}
steps:
  mapped: {from: numbers, map: {python: "gate.py:opened", returns: {x: bigint}}}
sinks:
  out: {from: mapped, files: {path: out}}
"""

GATE = """\
with open("gate") as gate:  # a pipe: until somebody writes, the job is starting
    gate.read()

def opened(rows):
    return rows
"""


def get(url: str, path: str, method: str = "GET", host: str = "") -> tuple[int, str]:
    """Return the answer."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=LONGEST_S)
    connection.request(method, path, headers={"Host": host} if host else {})
    response = connection.getresponse()
    status, body = response.status, response.read().decode()
    connection.close()
    return status, body


def test_a_job_says_how_it_is_from_its_start_on(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "gate.py").write_text(GATE)
    os.mkfifo(tmp_path / "gate")
    command = [*RUN, "p.yaml", "--http", "0", "--http-host", "headrace", "--log", "json"]
    process = limited(
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=-1, text=True)
    )
    assert process.stderr is not None
    says = (json.loads(line) for line in process.stderr)
    url = next(said["url"] for said in says if said["event"] == "serving")
    assert get(url, "/ready") == (503, '{"status":"starting"}\n')
    assert get(url, "/live")[0] == 200
    assert get(url, "/live", host="headrace:9100")[0] == 200
    refused, why = get(url, "/live", host="rebound.example")
    assert refused == 421
    assert "--http-host rebound.example" in why
    with met(tmp_path / "gate", "w"):
        pass
    while (ready := get(url, "/ready"))[0] == 503:
        assert process.poll() is None
    assert ready == (200, '{"status":"running"}\n')
    families = {f.name: f for f in text_string_to_metric_families(get(url, "/metrics")[1])}
    (up,) = families["headrace_up"].samples
    assert (up.labels, up.value) == ({"job": "counted"}, 1)
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6
    for path in ("/metrics", "/v1/stop", "/"):
        assert get(url, path, "POST")[0] in (404, 405)
    process.terminate()
    ended(process)
    assert process.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        get(url, "/live")


def test_a_port_that_is_taken_ends_a_run_before_it_begins(
    headrace: Headrace, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "gate.py").write_text(GATE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = headrace("run", "p.yaml", "--http", str(port))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        f"p.yaml: --http {port}: cannot listen on 127.0.0.1:{port}: address already in use\n"
        "      another process listens there: choose another port, or 0 for any free port\n"
    )
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / ".headrace").exists()


def test_a_host_without_a_port_is_refused(headrace: Headrace, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    ran = headrace("run", "p.yaml", "--http-host", "headrace")
    assert (ran.status, ran.out) == (2, "")
    assert "--http-host applies only together with --http" in ran.err


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_what_is_no_port_is_answered_with_what_was_wanted(headrace: Headrace, port: str) -> None:
    ran = headrace("run", "p.yaml", "--http", port)
    assert ran.status == 2
    assert f'wanted a whole number from 0 to 65535, got "{port}"' in ran.err
