"""The simulated loops keep their contract on each Python that headrace runs on, if it is here.

They use parts of asyncio that are not public, so a new Python may break them. Other tests use them
under the Python of .venv only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.runtime import loop_contract

ROOT = Path(__file__).parents[3]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


@cache
def find_pythons() -> dict[str, str]:
    """Return the interpreters on this machine, by version: on the path, and those of pyenv."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [sys.executable, *map(str, versions.glob("*/bin/python3"))]
    candidates += [path for each in VERSIONS if (path := shutil.which(f"python{each}"))]
    found = dict[str, str]()
    for path in candidates:
        ran = subprocess.run([path, "--version"], capture_output=True, text=True)
        if version := re.match(r"Python (\d+\.\d+)", ran.stdout):
            found.setdefault(version[1], path)
    return found


def test_the_versions_are_those_that_headrace_runs_on() -> None:
    assert f"python_requires = >={VERSIONS[0]}\n" in (ROOT / "setup.cfg").read_text("utf-8")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_loops_keep_their_contract(version: str, tmp_path: Path) -> None:
    python = find_pythons().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    package = tmp_path / "headrace"
    package.mkdir()
    (package / "__init__.py").symlink_to(ROOT / "core/root-package/__init__.py")
    (package / "core").symlink_to(ROOT / "core")
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [python, "-W", "error", loop_contract.__file__],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert ran.returncode == 0, ran.stderr
