"""Commands of our pages, for the tests that compare their output."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile

from docs.snippets import by_bash
from headrace.cli.main import run_command_line

PLAIN = re.compile(r"""headrace ([^|&;<>*$'"]|'[^']*'|"[^"$]*")*""")
"""A command line in which a shell has nothing to do."""


def run_page_command(line: str, folder: Path) -> str:
    """Return what a command prints; one that is ours alone runs in this process, which is faster.

    Not where there is Python of a user: a page may change it, and a process loads it once.
    """
    if PLAIN.fullmatch(line) is None or any(folder.glob("*.py")):
        return by_bash(line, folder)
    with TemporaryFile("w+") as both, ExitStack() as lasting:
        lasting.enter_context(chdir(folder))
        lasting.enter_context(redirect_stdout(both))
        lasting.enter_context(redirect_stderr(both))
        run_command_line(shlex.split(line)[1:], lasting)
        both.seek(0)
        return both.read()
