"""A batch whose workers have another Python: one without headrace and the pipeline's folder, on a
cluster, and one without a package that headrace needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.core.spark.code_archive import find_own_files, write_archive
from tests.support.cli.command_line import Headrace
from tests.support.java import FOR_ALL
from tests.support.spark.cluster import LONGEST_S, cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
from headrace import Process  # only to see that executors have the public names
from weights import WEIGHT

def score(row):
    return {"k": row["k"], "score": WEIGHT * row["x"]}
"""
PYTHON = """\
#!/bin/sh
mv {code} {code}.gone 2> /dev/null
PYTHONPATH="$PYTHONPATH:{site}:{site}/headrace.zip" exec {python} -S "$@"
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


def run(folder: Path, master: str, python: Path) -> subprocess.CompletedProcess[str]:
    settings = {
        "spark.pyspark.python": str(python),
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
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
def test_a_cluster_is_sent_what_it_does_not_have(tmp_path: Path) -> None:
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


def test_missing_modules_of_a_cluster_are_reported(
    spark: SparkSession, headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "scoring.py").write_text(SCORING)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    python = foreign(tmp_path, tmp_path / "nothing", without="polars")
    # On a cluster headrace itself is sent.
    write_archive(tmp_path / "site-without-polars" / "headrace.zip", find_own_files())
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    ran = headrace("run", "p.yaml", "--batch")
    assert ran.status == 1
    assert "a worker's Python has no package polars" in ran.err
    assert "Traceback" not in ran.err
