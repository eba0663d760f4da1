"""A batch on a cluster whose workers have neither headrace nor the pipeline's folder."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.java import FOR_ALL
from tests.spark.cluster import LONGEST_S, cluster

PIPELINE = """\
name: spread
sources:
  ids: {generate: {rows: 1000, columns: {x: id, k: "id % 7"}}}
steps:
  scored:
    from: ids
    map: {python: code/scoring.py:score, returns: {k: bigint, score: bigint}, mode: row}
  totals:
    from: scored
    key: k
    aggregate: {n: count(*), total: sum(score)}
sinks:
  out: {from: totals, files: {path: out, mode: overwrite}}
"""
SCORING = """\
from weights import WEIGHT

def score(row):
    return {"k": row["k"], "score": WEIGHT * row["x"]}
"""
PYTHON = """\
#!/bin/sh
mv {code} {code}.gone 2> /dev/null
PYTHONPATH="$PYTHONPATH:{site}" exec {python} -S "$@"
"""


def foreign(folder: Path, code: Path, without: str = "headrace") -> Path:
    """A Python as on another machine: it has all packages but this one, and no folder of code."""
    site = folder / f"site-without-{without}"
    site.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith((without, "headrace", "__editable__")):
            (site / path.name).symlink_to(path)
    program = folder / f"python-without-{without}"
    program.write_text(PYTHON.format(code=code, site=site, python=sys.executable))
    program.chmod(0o755)
    return program


def run(folder: Path, master: str, python: Path, **more: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "spark.pyspark.python": str(python),
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        **more,
    }
    conf = [word for item in settings.items() for word in ("--conf", "=".join(item))]
    command = [sys.executable, "-m", "headrace.cli", "run", "p.yaml", "--batch", "--master", master]
    return subprocess.run(
        [*command, *conf],
        cwd=folder,
        env=os.environ | FOR_ALL,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )


@pytest.mark.slow
def test_a_cluster_is_sent_what_it_does_not_have_and_told_what_it_must(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (code / "scoring.py").write_text(SCORING)
    (code / "weights.py").write_text("WEIGHT = 3\n")
    with cluster(tmp_path) as master:
        ran = run(tmp_path, master, foreign(tmp_path, code))
        assert ran.returncode == 0, ran.stderr
        assert not code.exists()
        rows = "".join(path.read_text() for path in (tmp_path / "out").glob("*.jsonl"))
        assert '{"k":0,"n":143,"total":213213}' in rows.splitlines()
        assert len(rows.splitlines()) == 7

        Path(f"{code}.gone").rename(code)
        once = {"spark.cores.max": "1", "spark.task.maxFailures": "1"}
        ran = run(tmp_path, master, foreign(tmp_path, code, without="polars"), **once)
        assert ran.returncode == 1
        assert "a worker's Python has no package polars" in ran.stderr
        assert "Traceback" not in ran.stderr
