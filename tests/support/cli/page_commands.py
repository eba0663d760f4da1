"""Commands of our pages, for the tests that compare their output."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile

from docs.snippets import by_bash, pages_without_broker, search_path
from headrace.cli.main import run_command_line
from tests.support.cli.command_process import write_command

PLAIN = re.compile(r"""headrace ([^|&;<>*$'"]|'[^']*'|"[^"$]*")*""")
"""A command line in which a shell has nothing to do."""
_CONSOLE = re.compile(r"^```console$.*?^```$", re.MULTILINE | re.DOTALL)
_BATCH = re.compile(r"^\$ headrace .*--batch", re.MULTILINE)


def list_pages(*, on_spark: bool) -> list[Path]:
    """Return the pages that need no broker: those with a command on Spark, or the others."""
    return [path for path in pages_without_broker() if _needs_spark(path) == on_spark]


def _needs_spark(page: Path) -> bool:
    blocks = _CONSOLE.findall(page.read_text("utf-8"))
    return any(_BATCH.search(block) for block in blocks)


def run_page_command(line: str, folder: Path) -> str:
    """Return what a command prints; one that is ours alone runs in this process, which is faster.

    Not where there is Python of a user: a page may change it, and a process loads it once.
    """
    if PLAIN.fullmatch(line) is None or any(folder.glob("*.py")):
        return by_bash(line, folder, f"{write_command()}:{search_path()}")
    with TemporaryFile("w+") as both, ExitStack() as lasting:
        lasting.enter_context(chdir(folder))
        lasting.enter_context(redirect_stdout(both))
        lasting.enter_context(redirect_stderr(both))
        run_command_line(shlex.split(line)[1:], lasting)
        both.seek(0)
        return both.read()
