"""The first moments of a process, and one whose locale knows only ASCII."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from tests.support.cli.processes import limited
from tests.support.paths import ROOT

HEADRACE = (sys.executable, "-m", "headrace.cli")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0"}


@pytest.mark.parametrize("module", ["click.core", "headrace.cli.errors", "headrace.cli.main"])
@pytest.mark.parametrize("command", ["validate", "run"])
def test_ctrl_c_while_python_imports_leaves_no_traceback(
    tmp_path: Path, module: str, command: str
) -> None:
    os.mkfifo(tmp_path / "p.yaml")  # it would wait here for ever
    process = limited(
        subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "headrace.cli", command, "p.yaml"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
    )
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            if line.rpartition("|")[2].strip() == module:
                break
        with ThreadPoolExecutor() as pool:  # a full pipe would stop the process
            reading = pool.submit(process.stderr.read)
            process.send_signal(signal.SIGINT)
            # It may be the first of two that `run` waits for, or come while a library drops it.
            while not reading.done():
                wait([reading], timeout=0.01 if command == "run" else 10)
                process.send_signal(signal.SIGINT)
            rest = reading.result()
    said = [line for line in rest.splitlines() if not line.startswith("import time:")]
    assert process.returncode == 130, rest
    # Each of several signals may be answered.
    assert set(said) <= {"stopped"}


LOADED_EARLY = """\
import site, sys
before = {*sys.modules}
import headrace.cli.__main__
print(*sorted({*sys.modules} - before))
"""


def test_nothing_is_imported_before_ctrl_c_is_handled(tmp_path: Path) -> None:
    """Python imports nothing more at its own start where headrace is installed from a wheel."""
    package = tmp_path / "headrace"
    package.mkdir()
    (package / "__init__.py").symlink_to(ROOT / "core" / "root-package" / "__init__.py")
    (package / "cli").symlink_to(ROOT / "cli")
    ran = subprocess.run(
        [sys.executable, "-S", "-c", LOADED_EARLY],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    ours = {"headrace", "headrace.cli", "headrace.cli.__main__", "headrace.cli.process_setup"}
    assert {*ran.stdout.split()} == ours


PIPELINE = """\
name: names
sources:
  rows: {files: {path: "in😀.jsonl"}, format: json, schema: {x: bigint, "ü😀": string}}
steps:
  mapped:
    from: rows
    map: {python: "u😀.py:f", returns: {x: bigint, "😀": string}, mode: row}
  named:
    from: mapped
    lookup: {file: {path: "l😀.csv", format: csv}, on: {x: x}, add: {y: string}}
sinks:
  kept: {from: named, files: {path: "out😀"}}
  shown: {from: named, console: {}}
  printed: {from: named, stdout: {}, format: json}
"""
CODE = """\
import sys

def f(row):
    print("said 😀")
    print("told 😀", file=sys.stderr)
    return {"x": row["x"], "😀": row["ü😀"]}
"""


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | ASCII
    command = [*HEADRACE, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=120)


def test_names_and_rows_beyond_ascii_work_where_the_locale_has_none(tmp_path: Path) -> None:
    (tmp_path / "p😀.yaml").write_text(PIPELINE, "utf-8")
    (tmp_path / "u😀.py").write_text(CODE, "utf-8")
    (tmp_path / "in😀.jsonl").write_text('{"x": 1, "ü😀": "😀"}\n', "utf-8")
    (tmp_path / "l😀.csv").write_text("x,y\n1,é\n", "utf-8")
    for command in ("validate", "explain"):
        assert ran(tmp_path, command, "p😀.yaml").returncode == 0
    checked = ran(tmp_path, "validate", "--connect", "p😀.yaml")
    assert (checked.returncode, "in😀.jsonl" in checked.stdout.decode()) == (0, True)
    done = ran(tmp_path, "run", "p😀.yaml", "--home", "h😀")
    assert done.returncode == 0, done.stderr
    row = '{"x":1,"😀":"😀","y":"é"}'
    assert row in done.stdout.decode().splitlines()
    assert "told 😀" in done.stderr.decode()
    (part,) = (tmp_path / "out😀").glob("part-*")
    assert part.read_text("utf-8") == f"{row}\n"
    assert (tmp_path / "h😀").is_dir()


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("run", "no😀.yaml"), "no😀.yaml"),
        (("jobs", "--home", "h😀"), "there is no folder h😀"),
        (("stop", "😀"), '"😀"'),
        (("new", "😀"), "😀"),
        (("schema", "--of", "no😀.jsonl"), "no😀.jsonl"),
    ],
)
def test_what_a_user_types_wrong_is_shown_as_typed(
    tmp_path: Path, arguments: tuple[str, ...], shown: str
) -> None:
    one = ran(tmp_path, *arguments)
    assert one.returncode == 2
    assert shown in one.stderr.decode()
    assert "Error" not in one.stderr.decode()
