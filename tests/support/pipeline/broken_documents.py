"""Broken documents with their problems, as text: tests/core/pipeline/broken/*.txt.

A case is a title, its `--set` arguments, the document, and the problems as they are shown:

    === a title
    $ --set settings.parallelism=x
    name: demo
    ~~~
    p.yaml:1:1: missing key "sources"
    ...

`python -m tests.support.pipeline.broken_documents` writes the current problems; review the
difference before you commit it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors.rendering import render_problem
from headrace.core.pipeline.loader import LoadedPipeline, load_pipeline
from tests.support.paths import TESTS
from tests.support.pipeline.connectors import REGISTRY

BROKEN = TESTS / "core" / "pipeline" / "broken"
FILES = {
    "scoring.py": "from os import getcwd\n\ndef score(rows):\n    return rows\n\n"
    "class Scorer:\n    pass\n\nasync def later(rows):\n    return rows\n",
    "shapes.py": "none = None\nlimit = 3\n\ndef none_at_all(): pass\n\ndef two(a, b): return a\n\n"
    "def named(*, rows): return rows\n\ndef each(rows):\n    if rows: yield rows\n\n"
    "def fine(rows, limit=3, *, deep=True):\n    def inner():\n        yield 1\n    return rows\n\n"
    "def any_number(*rows): return rows[0]\n\n@cached\ndef wrapped(a, b): return a\n",
    "unfinished.py": "def score(:\n",
    "query.sql": "price > 0\n",
}
ENVIRONMENT = {"TOPIC": "bids", "EMPTY": "", "HEADRACE_SECRET_TOKEN": "hunter2"}


@dataclass(frozen=True)
class Case:
    """One document and its problems."""

    title: str
    overrides: tuple[str, ...]
    document: str
    said: str

    def __str__(self) -> str:
        lines = "".join(f"$ --set {override}\n" for override in self.overrides)
        return f"=== {self.title}\n{lines}{self.document}~~~\n{self.said}"


def read_cases(path: Path) -> list[Case]:
    """Return the cases of one file."""
    return [_case(text) for text in path.read_text("utf-8").split("=== ")[1:]]


def _case(text: str) -> Case:
    title, _, rest = text.partition("\n")
    document, _, said = rest.partition("~~~\n")
    lines = document.splitlines(keepends=True)
    overrides = [line for line in lines if line.startswith("$ --set ")]
    return Case(
        title,
        tuple(line.removeprefix("$ --set ").removesuffix("\n") for line in overrides),
        "".join(lines[len(overrides) :]),
        said,
    )


def loaded(document: str | bytes, overrides: tuple[str, ...] = ()) -> LoadedPipeline:
    """Load the document from a file p.yaml in the working directory."""
    content = document.encode() if isinstance(document, str) else document
    Path("p.yaml").write_bytes(content)
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    return load_pipeline("p.yaml", REGISTRY, overrides=overrides, env=ENVIRONMENT)


def said(document: str | bytes, overrides: tuple[str, ...] = ()) -> str:
    """Return all problems of a document as they are shown, and the names of broken parts."""
    found = loaded(document, overrides)
    shown = "".join(f"{render_problem(problem)}\n" for problem in found.problems)
    broken = f"broken: {', '.join(sorted(found.broken_names))}\n" if found.broken_names else ""
    return shown + broken + ("names lost\n" if found.has_unknown_names else "")


def all_cases() -> Iterator[tuple[str, Case]]:
    """Yield every case with the name of its file."""
    for path in sorted(BROKEN.glob("*.txt")):
        yield from ((path.stem, case) for case in read_cases(path))


def write_down() -> None:
    """Replace the problems in all files by the current ones."""
    for path in sorted(BROKEN.glob("*.txt")):
        cases = read_cases(path)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            now = [
                Case(case.title, case.overrides, case.document, said(case.document, case.overrides))
                for case in cases
            ]
        path.write_text("".join(map(str, now)), "utf-8")


if __name__ == "__main__":
    write_down()
