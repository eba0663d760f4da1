"""Hints that name a command or an option: what they name exists, and following them works."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from docs.snippets import ROOT
from headrace.cli.control import client
from headrace.cli.main import headrace as all_commands
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_line import Headrace
from tests.support.cli.controlled_jobs import NOW, running

PACKAGES = ("cli", "connectors", "core", "state")
FOREIGN_OPTIONS = {
    "--add-modules",
    "--add-opens",
    "--conf",
    "--memory",
    "--of-type",
    "--pdeathsig",
}
"""Options of other programs that texts name."""

VERBS = {"can", "does", "failed", "has", "itself", "makes", "wrote"}
NOUNS = {"import", "pipeline"}
"""Words after `headrace` in texts that are about the program, and call no command of it."""

COMMAND = re.compile(r"headrace ([a-z]+(?: [a-z]+)?)\b")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


@cache
def list_texts() -> tuple[tuple[str, str], ...]:
    """Return each string of the program with its place; see `iterate_texts`."""
    return tuple(iterate_texts())


def iterate_texts() -> Iterator[tuple[str, str]]:
    """Yield each string of the program with its place; inserted values are an X.

    Docstrings are left out. The name of a command that `format_command` completes is a text too.
    """
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(file.read_text("utf-8"))
            left_out = {id(part) for node in ast.walk(tree) for part in _list_parts(node)}
            for node in ast.walk(tree):
                text = _read_text(node)
                if text is not None and id(node) not in left_out:
                    yield f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", text


def _list_parts(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.JoinedStr(values=parts):
            return parts
        case ast.Expr(value=docstring):
            return [docstring]
    return []


def _read_text(node: ast.AST) -> str | None:
    match node:
        case ast.JoinedStr(values=parts):
            return "".join(_read_text(part) or "X" for part in parts)
        case ast.Constant(value=str() as text):
            return text
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str() as text), *_]):
            return f"headrace {text}" if name.endswith("format_command") else None
    return None


def find_command(words: str) -> click.Command | None:
    """Find the command that text calls by these words; a group needs one of its commands."""
    command: click.Command | None = all_commands
    for word in words.split():
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
    return command


def list_options(command: click.Command) -> set[str]:
    """List the options of a command, and of the commands in it."""
    found = {option for parameter in command.params for option in parameter.opts}
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            found |= list_options(inner)
    return found


def test_commands_that_texts_name_exist() -> None:
    called = [
        (at, words)
        for at, text in list_texts()
        for words in COMMAND.findall(text)
        if words.split()[0] not in VERBS | NOUNS
    ]
    assert len(called) > 15
    assert not [each for each in called if find_command(each[1]) is None]


def test_options_that_texts_name_exist() -> None:
    known = list_options(all_commands) | FOREIGN_OPTIONS | {"--help"}
    named = [(at, found) for at, text in list_texts() for found in OPTION.findall(text)]
    assert len(named) > 100
    assert not [each for each in named if each[1] not in known]


@pytest.fixture
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands do not wait for a job that may be starting."""
    monkeypatch.setattr(client, "START_TIMEOUT_S", 0.05)
    monkeypatch.setattr(client, "HOME_TIMEOUT_S", 0.05)


def read_command(text: str) -> list[str]:
    """Return the arguments of the command at the end of a hint."""
    return shlex.split(text.splitlines()[-1].partition(": headrace ")[2])


@pytest.mark.parametrize("home", ["home", "a home", ""])
@pytest.mark.usefixtures("in_haste")
def test_a_savepoint_of_a_stopped_job_is_made_as_the_hint_says(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    with running(tmp_path) as job:
        job.ended(job.asked("/v1/stop"))
        checkpoint = job.over().checkpoint
    place = ["--home", home] if home else []
    if home:
        (tmp_path / "home").rename(tmp_path / home)
    else:
        monkeypatch.setenv("HEADRACE_HOME", "home")
    refused = headrace("savepoint", "test", *place)
    assert refused.status == 3
    assert f"to make a savepoint of its checkpoint {checkpoint}: headrace " in refused.err
    followed = read_command(refused.err)
    assert followed == ["state", "export", "test", *place]
    assert headrace(*followed).status == 0


@pytest.mark.usefixtures("in_haste")
def test_no_savepoint_is_offered_without_a_checkpoint(headrace: Headrace, tmp_path: Path) -> None:
    with Home(LocalDisk(), str(tmp_path / "home"), "test").hold(NOW):
        pass
    refused = headrace("savepoint", "test", "--home", "home")
    assert refused.err.endswith("it has no checkpoint to make a savepoint of\n")


@pytest.mark.usefixtures("in_haste")
def test_an_unknown_job_is_found_as_the_hint_says(headrace: Headrace, tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Home(LocalDisk(), str(tmp_path / "home"), name).hold(NOW):
            pass
        unknown = headrace("stop", "other", "--home", "home")
        told = {"one": "its only job is one", "two": "its jobs are one, two"}[name]
        assert unknown.err.endswith(f"{told}\n")


@pytest.mark.usefixtures("in_haste")
def test_a_job_that_does_not_run_is_started_with_another_parallelism(
    headrace: Headrace, tmp_path: Path
) -> None:
    Path("test.yaml").write_text("name: test")
    with Home(LocalDisk(), str(tmp_path / "home"), "test").hold(NOW):
        pass
    for job, file in (("test", "FILE"), ("test.yaml", "test.yaml")):
        refused = headrace("rescale", job, "--parallelism", "2", "--home", "home")
        assert read_command(refused.err) == ["run", file, "--parallelism", "N"]
