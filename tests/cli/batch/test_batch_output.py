"""Batches whose output cannot be written are refused before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.processes import finished

PIPELINE = """\
name: small
sources:
  s: {generate: {rows: 3, columns: {x: id}}}
sinks:
  out: {from: s, files: {path: out, mode: %s}}
"""
NOBODY = "spark://127.0.0.1:1"
"""A master that Spark would have to reach first."""


@pytest.mark.parametrize(
    ("mode", "status", "said"),
    [
        ("error", 3, "out holds output of another run: part-0-0.jsonl"),
        ("append", 1, NOBODY),
    ],
)
def test_a_full_folder_is_refused_before_spark_is_started(
    tmp_path: Path, mode: str, status: int, said: str
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE % mode)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-0-0.jsonl").write_text("{}\n")
    # A process of its own: here Spark may be running, and it would be used.
    ran = finished(tmp_path, "p.yaml", "--batch", "--quiet", "--master", NOBODY)
    assert said in ran.stderr
    assert ran.returncode == status
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-0-0.jsonl"]
