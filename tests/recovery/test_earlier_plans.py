"""A job whose state is of a plan that an earlier version built resumes with that plan."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from headrace.cli.pipeline_file import check_pipeline
from tests.support.cli.processes import finished, limited

ROWS = 3000
PIPELINE = f"""\
name: joined
settings: {{checkpoint: {{every: 100ms}}}}
sources:
  a: {{generate: {{rows: {ROWS}, rate: 1000/s, columns: {{k: id % 50, n: id % 7}}}}}}
  b: {{generate: {{rows: {ROWS}, rate: 1000/s, columns: {{k: id % 50, m: id}}}}}}
steps:
  mine: {{from: a, dedup: {{key: k, keep: last}}}}
  theirs: {{from: b, dedup: {{key: k, keep: last}}}}
  joined:
    join: {{left: mine, right: theirs, on: mine.k = theirs.k, type: full}}
    select: {{k: mine.k, other: theirs.k, n: n, m: m}}
  step: {{from: joined, key: n, aggregate: {{rows: count(*), newest: max(m)}}}}
sinks:
  out: {{from: step, files: {{path: out}}}}
"""
EARLIER_VERSION = """
from headrace.core.plan.builder import PlanBuilder

PlanBuilder.rebuild_without_keys = lambda self, parts: parts
from headrace.cli.main import main

main()
"""
"""A version that let full joins have keys which two rows may share."""


def test_a_full_join_keeps_the_key_that_its_state_has(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    assert check_pipeline(str(tmp_path / "p.yaml"), ()).plan_as_before() is not None
    command = [sys.executable, "-c", EARLIER_VERSION, "run", "p.yaml", "--log", "json"]
    with limited(
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    ) as earlier:
        assert earlier.stderr is not None
        events = (json.loads(line) for line in earlier.stderr)
        next(event for event in events if event.get("number") == 3)
        earlier.send_signal(signal.SIGTERM)
        earlier.stderr.read()
    ran = finished(tmp_path, "p.yaml", "--set", "sources.a.generate.rate=1000000/s")
    assert ran.returncode == 0, ran.stderr
    assert "resumed from checkpoint" in ran.stderr
    rows = {}
    for part in sorted((tmp_path / "out").iterdir(), key=lambda each: each.stat().st_mtime_ns):
        for line in part.read_text().splitlines():
            row = json.loads(line)
            rows[row["n"]] = row
    counts = [row["rows"] for row in rows.values() if not row.get("_delete")]
    assert sum(counts) == 50
    assert max(row["newest"] for row in rows.values()) == ROWS - 1
