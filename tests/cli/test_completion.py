"""Completions that a shell gets for the tab key."""

import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.cli.new import find_templates
from tests.support.cli.command_line import Headrace


def completed(headrace: Headrace, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """The words offered at the end of the line, as bash asks for them."""
    words = line.split(" ")
    monkeypatch.setenv("_HEADRACE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    return [answer.partition(",")[2] for answer in headrace().out.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_headrace(headrace: Headrace, shell: str) -> None:
    ran = headrace("completion", shell)
    assert ran.status == 0
    assert f"_HEADRACE_COMPLETE={shell}_complete" in ran.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_understands(headrace: Headrace, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    script = headrace("completion", shell).out
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_commands_and_templates_are_completed(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert completed(headrace, monkeypatch, "headrace fun") == ["functions"]
    assert completed(headrace, monkeypatch, "headrace new ") == list(find_templates())


def test_functions_are_completed(headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "coalesce" in completed(headrace, monkeypatch, "headrace functions co")


def test_pipelines_are_completed_also_below(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.yaml", "b.txt", ".c.yaml", "jobs/d.yml", "jobs/deep/e.yaml"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    found = ["a.yaml", "jobs/d.yml", "jobs/deep/e.yaml"]
    assert completed(headrace, monkeypatch, "headrace validate ") == found
    assert completed(headrace, monkeypatch, "headrace explain jobs/d.") == ["jobs/d.yml"]
