"""The command line in this process: arguments in, exit status and both streams out."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from headrace.cli.main import run_command_line


@dataclass(frozen=True)
class Ran:
    """Exit status, results, and what was said about them."""

    status: int
    out: str
    err: str


Headrace: TypeAlias = Callable[..., Ran]


@pytest.fixture
def headrace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Headrace:
    """Runs a command line in an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def ran(*arguments: str) -> Ran:
        with ExitStack() as lasting:
            status = run_command_line(list(arguments), lasting)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return ran
