"""`run --limit` of a pipeline that asks for workers: the rows of one process, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.worker_jobs import read_rows, run_command

PIPELINE = """\
name: limited
sources:
  numbers: {files: {path: in}, schema: {x: bigint}}
steps:
  even: {from: numbers, where: x % 2 = 0}
sinks:
  out: {from: even, SINK}
settings: {workers: 2, parallelism: 3}
"""


@pytest.mark.parametrize("sink", ["files: {path: out}", "stdout: {}", "console: {}"])
def test_a_limit_holds_for_the_job_whatever_workers_it_asks_for(tmp_path: Path, sink: str) -> None:
    (tmp_path / "in").mkdir()
    for file in range(3):
        lines = (json.dumps({"x": x}) for x in range(file * 100, file * 100 + 100))
        (tmp_path / "in" / f"{file}.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "limited.yaml").write_text(PIPELINE.replace("SINK", sink))
    done = run_command(tmp_path, "run", "limited.yaml", "--limit", "150")
    assert done.returncode == 0, done.stderr
    assert "one process runs everything: a run with --limit" in done.stderr
    if sink.startswith("files"):
        numbers = [row["x"] for row in read_rows(tmp_path / "out")]
    elif sink.startswith("stdout"):
        numbers = [json.loads(line)["x"] for line in done.stdout.splitlines()]
    else:
        numbers = [int(word) for word in done.stdout.split() if word.isdigit()]
    assert sorted(numbers) == list(range(0, 150, 2))
