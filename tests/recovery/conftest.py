"""The command line in this process, as tests of commands have it; and a copy of a stopped job."""

import shutil
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace


@pytest.fixture
def job(stopped: Path, headrace: Headrace, tmp_path: Path) -> Headrace:
    """The job that a module has stopped: its copy is the working directory."""
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    return headrace
