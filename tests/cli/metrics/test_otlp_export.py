"""What a receiver of OpenTelemetry gets from a job, and a job whose receiver is down."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from headrace.cli.metrics.metric_table import METRICS
from headrace.cli.metrics.otlp.job_export import OtlpExport, check_receiver
from headrace.connectors.memory import InMemoryData
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import ChannelBounds
from tests.support.cli.command_process import start_headrace
from tests.support.cli.otlp_receiver import Received, read_attributes, receiving
from tests.support.cli.processes import limited
from tests.support.cli.servers import served_folder, until
from tests.support.runtime.memory_pipelines import job_of

POLL_S = 0.1
PIPELINE = """
name: sent
sources: {numbers: {generate: {rate: 50/s, columns: {x: id}}}}
steps: {mapped: {from: numbers, map: {python: code.py:check, returns: {x: bigint}}}}
sinks: {out: {from: mapped, files: {path: out}}}
settings:
  checkpoint: {every: 500ms}
  restart: {strategy: fixed, delay: 10ms}
  latency_markers: 500ms
"""
CODE = """
import time
from pathlib import Path

def check(rows):
    if not Path("slept").exists():
        Path("slept").touch()
        time.sleep(1.2)
    elif Path("slept").stat().st_mtime + 3 < time.time() and not Path("failed").exists():
        Path("failed").touch()
        raise OSError("once")
    return rows
"""
EXPORTED = {
    "headrace_info",
    "headrace_rows_in_total",
    "headrace_busy_seconds_total",
    "headrace_checkpoint_duration_seconds_count",
    "headrace_checkpoint_duration_seconds_sum",
    "headrace_last_checkpoint_number",
}
"""Some metrics of each kind."""
MEMORY = """
sources: {s: {memory: {data: in}, schema: {id: bigint}}}
sinks: {out: {from: s, memory: {data: out}}}
"""


def test_a_receiver_gets_the_metrics_of_the_table_and_spans(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "code.py").write_text(CODE)
    environment = os.environ | {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20s3cret"}
    with receiving() as (url, received), (tmp_path / "log").open("w") as log:
        process = limited(
            start_headrace(
                *("run", "p.yaml", "--otlp", url, "--http", "0"),
                cwd=tmp_path,
                stdout=log,
                stderr=log,
                env=environment,
            )
        )
        try:
            while {each.name for each in received.list_spans()} < {
                "checkpoint",
                "restart",
                "kernel",
            }:
                assert process.poll() is None, (tmp_path / "log").read_text()
                time.sleep(POLL_S)
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        finally:
            process.kill()
            process.wait()
    check_metrics(received)
    check_spans(received)
    assert {each["authorization"] for each in received.headers} == {"Bearer s3cret"}
    assert "s3cret" not in (tmp_path / "log").read_text()


def check_metrics(received: Received) -> None:
    """Check the last message of metrics, which is of the end of the job."""
    points = received.list_points()
    assert points.keys() >= EXPORTED
    labels_of = {name: metric.labels[1:] for metric in METRICS for name in metric.sample_names}
    assert not [
        name
        for name, each in points.items()
        if any(set(attributes) != set(labels_of[name]) for attributes, _ in each)
    ]
    (resource,) = received.metrics[-1].resource_metrics
    assert read_attributes(resource.resource)["service.name"] == "sent"
    assert sum(rows for _, rows in points["headrace_rows_out_total"]) > 0
    quantiles = {attributes["quantile"] for attributes, _ in points["headrace_latency_seconds"]}
    assert quantiles == {"0.5", "0.99"}
    assert points["headrace_restarts_total"] == [({}, 1)]
    outcomes = {labels["outcome"]: n for labels, n in points["headrace_checkpoints_total"]}
    assert outcomes["completed"] > 2


def check_spans(received: Received) -> None:
    """Check the spans of checkpoints, of the restart, and of the kernel that slept."""
    spans = received.list_spans()
    numbers = [
        read_attributes(each)["headrace.checkpoint"] for each in spans if each.name == "checkpoint"
    ]
    # The failure has ended one that was being taken.
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 2
    (kernel,) = (each for each in spans if each.name == "kernel")
    assert kernel.end_time_unix_nano - kernel.start_time_unix_nano >= 1_200_000_000
    assert read_attributes(kernel)["headrace.task"] == "numbers > mapped > out"
    (restart,) = (each for each in spans if each.name == "restart")
    assert restart.end_time_unix_nano > restart.start_time_unix_nano
    assert len({each.trace_id for each in spans}) == len(spans)


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_receiver_that_is_down_is_reported_once_and_holds_nothing_up(tmp_path: Path) -> None:
    port, warnings = find_free_port(), list[str]()
    memory = InMemoryData({"in": {"a": [pl.DataFrame({"id": [1]}), 600.0]}})
    job = job_of(tmp_path, MEMORY, memory, KernelExecutor(), ChannelBounds())
    export = OtlpExport(f"http://127.0.0.1:{port}", "1.0", warnings.append, interval_s=0.1)

    async def wait_for(condition: Callable[[], object]) -> None:
        while not condition():  # noqa: ASYNC110 - a thread changes it
            await asyncio.sleep(POLL_S)

    async def main() -> None:
        running = asyncio.create_task(job.run())
        watching = asyncio.create_task(export.watch(job))
        await wait_for(lambda: warnings)
        before = export.export_count
        await wait_for(lambda: export.export_count >= before + 2)
        assert len(warnings) == 1
        assert job.collect_counts()["out"].rows_out == 1
        with receiving(port) as (_, received):
            await wait_for(lambda: len(warnings) == 2)
            assert received.list_points()["headrace_up"] == [({}, 1)]
        job.stop()
        await running
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(main())
    down, again = warnings[:2]
    assert down.startswith(f"OTLP: http://127.0.0.1:{port} does not take metrics and traces: ")
    assert "the job continues" in down
    assert again == f"OTLP: http://127.0.0.1:{port} takes metrics and traces again"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("127.0.0.1:4318", "wanted the URL of a receiver"),
        ("ftp://host", "wanted the URL of a receiver"),
        ("http://", "wanted the URL of a receiver"),
        ("http://host:port", "wanted the URL of a receiver"),
        ("http://me:s3cret@host:4318", "wanted a URL without a user"),
        ("http://host:4318?token=s3cret", "wanted a URL without a user"),
    ],
)
def test_an_address_that_is_none_is_rejected_without_its_secrets(url: str, message: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        check_receiver(url)
    assert message in caught.value.message
    assert "s3cret" not in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.exit_status == 2


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "code.py").write_text(CODE)
    program = (
        "import sys; sys.modules['opentelemetry'] = None; "
        "from headrace.cli.__main__ import main; main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "run", "p.yaml", "--otlp", "http://127.0.0.1:1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--otlp needs OpenTelemetry, and opentelemetry" in ran.stderr
    assert 'pip install "headrace[otlp]"' in ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_jobs_of_a_server_send_to_its_receiver(tmp_path: Path) -> None:
    with receiving() as (url, received), served_folder(tmp_path) as folder:
        folder.write("sending")
        refused = folder.run("serve", ".", "--otlp", "somewhere")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("headrace: --otlp: wanted the URL of a receiver\n")
        folder.start("--otlp", f"{url}/")
        until(lambda: received.metrics)
        assert received.list_points()["headrace_up"] == [({}, 1)]
