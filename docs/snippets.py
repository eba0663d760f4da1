"""The snippets of our pages are run: their files written, their commands' output put in place.

In a page, a `yaml` or `python` block whose first line is `# NAME` is the file of that name, and of
a `console` block each line that starts with `$ ` is a command, and what follows it its output. All
of a page happens in one empty folder, from top to bottom. `make docs` writes what differs, a test
compares.
How long something took, and what is computed from that, differs each time, and so does the order of
a run's rows where nothing says it: output that differs in nothing else is left as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

_BLOCK = re.compile(r"^```(yaml|python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIMED = re.compile(r"(?:(?<=in )|(?<=after ))[\d.]+ s\b|\b[\d,]+ rows/s$|  +[\d,]+$", re.MULTILINE)
_TEST_TIME = re.compile(r"(?<=, in )[\d.]+ s$", re.MULTILINE)
_FILE = re.compile(r"# ([\w.-]+)$", re.MULTILINE)


WITH_BROKER = {"local-kafka.md"}
"""Pages whose commands need a Kafka broker: tests/connectors/kafka compares their output."""


def search_path() -> str:
    """Where the commands of a page are looked for: beside this Python, then as in a shell."""
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"


def refusal(path: str) -> str | None:
    """Why no page can be refreshed with this search path, if so."""
    if shutil.which("headrace", path=path):
        return None
    return f"wanted the command headrace beside {sys.executable} or on PATH: make setup installs it"


def pages() -> list[Path]:
    """The pages with snippets: README.md and those that people write in docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def pages_without_broker() -> list[Path]:
    """The pages whose commands run anywhere."""
    return [path for path in pages() if path.name not in WITH_BROKER]


def by_bash(line: str, folder: Path, path: str | None = None) -> str:
    """What a command prints in that folder; its programs are on the search path."""
    ran = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=os.environ | {"PATH": path or search_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ran.returncode == 127:
        raise FileNotFoundError(f"$ {line}: {ran.stdout}")
    return ran.stdout


def refreshed(text: str, run: Callable[[str, Path], str] = by_bash) -> str:
    """The page with the output that its commands have now."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return _BLOCK.sub(lambda block: _block(block[1], block[2], folder, run), text)


def _block(kind: str, body: str, folder: Path, run: Callable[[str, Path], str]) -> str:
    if kind == "console":
        body = "".join(_outputs(body, folder, run))
    elif named := _FILE.match(body):
        (folder / named[1]).write_text(body, "utf-8")
    return f"```{kind}\n{body}```"


def _outputs(body: str, folder: Path, run: Callable[[str, Path], str]) -> Iterator[str]:
    for said in re.findall(r"^\$ .*\n(?:(?!\$ ).*\n)*", body, re.MULTILINE):
        line, _, before = said.partition("\n")
        now = run(line[2:], folder)
        yield f"{line}\n{before if _same(line, before, now) else now}"


def _same(command: str, before: str, now: str) -> bool:
    """Whether two outputs of a command say the same."""
    lines = [_untimed(output).splitlines() for output in (before, now)]
    if command.startswith("$ headrace run "):
        return sorted(lines[0]) == sorted(lines[1])
    return lines[0] == lines[1]


def _untimed(output: str) -> str:
    """The output without what a summary says of time: seconds, and the last column."""
    output = _TEST_TIME.sub("", output)
    return _TIMED.sub("", output) if "rows/s" in output else output
