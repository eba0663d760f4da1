"""The frame of the command: wrong words, wrong options, what goes wrong around it."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.command_group import PLANNED_COMMANDS
from headrace.cli.errors import exit_status_of, print_error
from headrace.cli.main import headrace as group
from tests.support.cli.command_line import Headrace

HEADRACE = [sys.executable, "-m", "headrace.cli"]


def test_help_lists_every_command_in_the_order_of_use(headrace: Headrace) -> None:
    ran = headrace("--help")
    listed = [line.split()[0] for line in ran.out.partition("Commands:")[2].strip().splitlines()]
    assert (ran.status, ran.err) == (0, "")
    assert listed == list(group.commands)


def test_no_argument_shows_the_help_as_a_mistake(headrace: Headrace) -> None:
    ran = headrace()
    assert (ran.status, ran.out) == (2, "")
    assert "Commands:" in ran.err


def test_version_is_that_of_the_package(headrace: Headrace) -> None:
    assert headrace("--version").out.startswith("headrace ")


def test_a_misspelt_command_is_answered_with_the_near_one(headrace: Headrace) -> None:
    ran = headrace("functoins")
    assert ran.status == 2
    assert ran.err.startswith(
        'headrace: no such command "functoins", did you mean "functions"?\nusage: headrace '
    )


def test_a_command_like_no_other_is_answered_with_all(headrace: Headrace) -> None:
    assert "there are completion, " in headrace("xyz").err


@pytest.mark.parametrize("command", sorted(PLANNED_COMMANDS))
def test_a_command_that_is_to_come_says_so_and_is_not_in_help(
    headrace: Headrace, command: str
) -> None:
    ran = headrace(command, "x.yaml", "--some-option")
    assert (ran.status, ran.err) == (2, f"headrace {command} is not built yet\n")
    assert command not in group.commands


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", ""])
def test_a_number_that_is_none_is_answered_with_what_was_wanted(
    headrace: Headrace, value: str
) -> None:
    ran = headrace("run", "x.yaml", "--limit", value)
    assert ran.status == 2
    assert f'wanted a whole number from 1 on, got "{value}"' in ran.err


def test_a_misspelt_option_is_answered_with_the_near_one(headrace: Headrace) -> None:
    ran = headrace("schema", "--off", "x")
    assert ran.status == 2
    assert ran.err.startswith("headrace schema: no such option")
    assert "--of" in ran.err.replace("--off", "")
    assert "usage: headrace schema [OPTIONS]" in ran.err


def test_a_reader_that_leaves_early_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run([*HEADRACE, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_reported_once() -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run([*HEADRACE, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 1
    hint = "      remove files, or give it more space\n"
    assert ran.stderr == f"headrace: cannot write: no space left on device\n{hint}"


PIPELINE = """name: t
sources: {s: {generate: {rows: 3, columns: {x: id}}}}
sinks: {o: {from: s, files: {path: out}}}
"""


@pytest.mark.parametrize("log", ["text", "json"])
@pytest.mark.parametrize("closed", ["0<&- ", "1>&-", "2>&-", "0<&- 1>&- 2>&-", "2> /dev/full"])
def test_a_run_needs_nobody_to_listen(tmp_path: Path, closed: str, log: str) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    line = f"{' '.join(HEADRACE)} run p.yaml --log {log} {closed}"
    ran = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (part,) = (tmp_path / "out").iterdir()
    assert part.read_text() == '{"x":0}\n{"x":1}\n{"x":2}\n'


@pytest.mark.parametrize("closed", ["1>&-", "1>&- 2>&-"])
@pytest.mark.parametrize("command", ["functions", "query 'select 1 as x' --format parquet"])
def test_a_command_without_standard_output_is_no_defect(command: str, closed: str) -> None:
    line = f"{' '.join(HEADRACE)} {command} {closed}"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Return headrace's output on a terminal."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run([*HEADRACE, *arguments], stdout=theirs, stderr=theirs, env=kept | environment)
    os.close(theirs)
    with open(ours, "rb") as terminal:
        return terminal.read1(100_000).decode()


def test_colour_is_for_terminals_that_want_it(headrace: Headrace) -> None:
    Path("a.yaml").write_text("nme: x\n")
    assert "\x1b[" in on_a_terminal("validate", "a.yaml")
    assert "\x1b[" not in on_a_terminal("validate", "a.yaml", NO_COLOR="1")
    assert "\x1b[" not in headrace("validate", "a.yaml").out


def test_ctrl_c_is_130() -> None:
    assert exit_status_of(KeyboardInterrupt()) == 130


def test_a_defect_is_one_line_that_names_the_file_with_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    error = ZeroDivisionError("division by zero\nand more")
    print_error(error)
    said = capsys.readouterr().err
    (kept,) = tmp_path.iterdir()
    assert said.count("\n") == 1
    assert said.startswith("headrace: a bug in headrace, not in your files")
    assert said.endswith(f"please report it with {kept}\n")
    assert "ZeroDivisionError: division by zero" in kept.read_text("utf-8")
    assert exit_status_of(error) == 1


def test_a_defect_shows_its_traceback_under_headrace_debug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    try:
        _ = 1 // 0
    except ZeroDivisionError as error:
        print_error(error)
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):")
