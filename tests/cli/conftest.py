"""The command line in this process: arguments in, exit status and both streams out."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.cli.main import run_command_line
from tests.cli.ran import Headrace, Ran


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
