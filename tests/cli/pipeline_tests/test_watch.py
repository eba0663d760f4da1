"""`headrace test --watch` runs again after each change of a file that the tests depend on."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.pipeline_tests.watch import read_states
from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import ended, limited

PIPELINE = """\
name: t
sources: {orders: {generate: {rows: 1, columns: {amount: id}}}}
steps: {named: {from: orders, map: {python: code.py:name, returns: {n: bigint}}}}
sinks: {a: {from: named, console: {}}}
"""
CODE = "def name(rows):\n    return rows.select(n='amount')\n"
TEST = """\
tests: [{name: t, given: [orders: [{amount: 1}]], expect: {named: [{n: 1}]}}]
"""


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that watches a pipeline with code and a test file."""
    (tmp_path / "t.yaml").write_text(PIPELINE, "utf-8")
    (tmp_path / "code.py").write_text(CODE, "utf-8")
    (tmp_path / "t.test.yaml").write_text(TEST, "utf-8")
    pipe = subprocess.PIPE
    started = start_headrace("test", "--watch", cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
    process = limited(started)
    yield process
    process.kill()


def read_results(process: subprocess.Popen[str]) -> str:
    """Return the summary of the next run."""
    assert process.stderr is not None
    lines = list(iter(process.stderr.readline, "watching 3 files, Ctrl-C ends\n"))
    return "".join(lines)


def replace_file(path: Path, text: str) -> None:
    """Replace a file at once: one that is written in place is empty for a moment, or for longer."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, "utf-8")
    new.replace(path)


def test_a_change_of_any_file_is_noticed_until_ctrl_c(
    watching: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert read_results(watching).startswith("1 test: 1 passed")
    replace_file(tmp_path / "code.py", CODE.replace("'amount')", "'amount').head(0)"))
    assert read_results(watching).startswith("1 test: 1 failed")
    replace_file(tmp_path / "t.test.yaml", TEST.replace("[{n: 1}]", "[]"))
    assert read_results(watching).startswith("1 test: 1 passed")
    replace_file(tmp_path / "t.yaml", PIPELINE.replace("from: orders", "from: order"))
    assert read_results(watching) == ""
    watching.send_signal(signal.SIGINT)
    out, err = ended(watching)
    assert watching.returncode == 130
    assert err.splitlines()[-1] == "stopped"  # perhaps after another run
    assert 'did you mean "orders"?' in out


def test_code_below_the_folder_and_files_that_tests_name_are_watched(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"{PIPELINE}# ../rows.csv and out/*.jsonl\n", "utf-8")
    (tmp_path.parent / "rows.csv").write_text("a\n", "utf-8")
    for name in ("inner/code.py", "inner/q.sql", ".hidden/code.py", "out/a.jsonl", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", "utf-8")
    found = sorted(read_states([str(tmp_path / "t.yaml")]))
    names = ("inner/code.py", "inner/q.sql", "t.yaml")
    assert found == sorted([*(str(tmp_path / n) for n in names), str(tmp_path.parent / "rows.csv")])
    (tmp_path.parent / "rows.csv").unlink()
    (tmp_path / "t.yaml").unlink()
    assert read_states([str(tmp_path / "t.yaml")]) == {}
