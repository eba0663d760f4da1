"""Named pipes and devices where a pipeline names files: nothing waits for them to be written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import ended, limited

SOON_S = 300.0
GENERATED = "generate: {rows: 3, columns: {x: id}}"
TEXT = """\
name: special
sources:
  s: {SOURCE}
steps:
  t: {from: s, STEP}
sinks:
  out: {from: t, files: {path: SINK}}
"""
FILES = "files: {path: %s}, format: %s, schema: {x: bigint}"
LOOKUP = "lookup: {file: {path: pipe, format: %s}, on: [x], add: {y: bigint}}"
PIPELINES = {
    "json": (FILES % ("pipe", "json"), "where: x > 1", "out"),
    "csv": (FILES % ("pipe", "csv"), "where: x > 1", "out"),
    "parquet": (FILES % ("pipe", "parquet"), "where: x > 1", "out"),
    "glob": (FILES % ('"pi*"', "json"), "where: x > 1", "out"),
    "link": (FILES % ("link", "json"), "where: x > 1", "out"),
    "stdin": (FILES % ("/dev/stdin", "json"), "where: x > 1", "out"),
    "zero": (FILES % ("/dev/zero", "json"), "where: x > 1", "out"),
    "lookup": (GENERATED, LOOKUP % "csv", "out"),
    "lookup-json": (GENERATED, LOOKUP % "json", "out"),
    "function": (GENERATED, "map: {python: pipe.py:f, returns: {x: bigint}}", "out"),
    "import": (GENERATED, "map: {python: u.py:f, returns: {x: bigint}}", "out"),
    "replacement": (GENERATED, 'where: "x > ${file:pipe}"', "out"),
    "sink": (GENERATED, "where: x > 1", "pipe"),
}
INVALID = {"function", "replacement"}
RUNS = {"import"}
"""Its function does not use the import."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("pipe", "pipe.py", "neighbour.py"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "link").symlink_to("pipe")
    code = "def f(rows):\n    import neighbour\n    return rows\n"
    (tmp_path / "u.py").write_text(code)
    for name, (source, step, sink) in PIPELINES.items():
        text = TEXT.replace("SOURCE", source).replace("STEP", step).replace("SINK", sink)
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def run_to_end(folder: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit status and all output; standard input is a pipe that nobody writes."""
    pipe = subprocess.PIPE
    process = limited(
        start_headrace(*arguments, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True),
        SOON_S,
    )
    return process.wait(), "".join(ended(process))


def test_validate_opens_no_special_file(folder: Path) -> None:
    valid = [f"{name}.yaml" for name in PIPELINES if name not in INVALID]
    assert run_to_end(folder, "validate", *valid)[0] == 0
    status, said = run_to_end(folder, "validate", *(f"{name}.yaml" for name in INVALID))
    assert status == 2
    assert '"pipe.py" is not a regular file' in said
    assert 'the file "pipe" is not a regular file' in said
    assert "did you mean" not in said


def test_a_check_of_the_disk_waits_for_none(folder: Path) -> None:
    names = [name for name in PIPELINES if name not in (*INVALID, *RUNS)]
    status, said = run_to_end(folder, "validate", "--connect", *(f"{n}.yaml" for n in names))
    assert status == 2
    assert said.count(" is a file, wanted a folder") == 1
    assert said.count(" is not a regular file") == len(names) - 1


@pytest.mark.parametrize("name", ["json", "parquet", "lookup"])
def test_a_run_waits_for_none(folder: Path, name: str) -> None:
    status, said = run_to_end(folder, "run", "--limit", "1", f"{name}.yaml")
    assert (status, "pipe is not a regular file" in said) == (2, True)
