"""Loading of a pipeline's file: all valid parts, and all problems."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.connector import Connectors
from headrace.core.pipeline.compose import compose
from headrace.core.pipeline.file import File
from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.interpolate import Interpolator
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.nodes import Node
from headrace.core.pipeline.parts import START, Reader
from headrace.core.pipeline.reading import read
from headrace.core.pipeline.resolve import Resolver
from headrace.core.pipeline.text import Text
from headrace.core.problems import Problem, sort_problems


@dataclass(frozen=True, slots=True)
class Loaded:
    """The valid parts of a document, its problems, and the names of its broken parts.

    A reader of a name in `broken` gets no problem of its own. With `names_lost`, a part of the
    document could not be read at all, and may have defined any name.
    """

    pipeline: Pipeline
    broken: frozenset[str]
    problems: tuple[Problem, ...]
    folder: Path
    names_lost: bool = False

    @property
    def ok(self) -> bool:
        """Whether all problems are warnings."""
        return all(problem.severity == "warning" for problem in self.problems)


def load(
    path: str | Path,
    connectors: Connectors,
    *,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Loaded:
    """Load a pipeline; `overrides` are the arguments of `--set`. User errors are never raised."""
    folder = Path(path).parent
    default = Text(Path(path).stem)
    findings = Findings()
    root = _root(path, overrides, findings)
    if root is None:
        problems = tuple(sort_problems(findings.problems))
        return Loaded(Pipeline(default), frozenset(), problems, folder, names_lost=True)
    interpolator = Interpolator(folder, os.environ if env is None else env)
    reader = Reader(connectors, Resolver(interpolator, findings), folder)
    pipeline = reader.pipeline(root, default)
    problems = tuple(sort_problems(findings.problems))
    return Loaded(pipeline, frozenset(reader.broken), problems, folder, reader.names_lost)


def _root(path: str | Path, overrides: Sequence[str], findings: Findings) -> Node | None:
    """Return the document's root after the overrides, if it could be read."""
    file, problems = read(path)
    findings.extend(problems)
    if file is None:
        return None
    root, problems = compose(file)
    findings.extend(problems)
    if root is None and not problems:
        findings.add(_nothing_in(file), file.whole(), START)
    if root is None:
        return None
    if overrides:
        from headrace.core.pipeline.overrides import override

        root, problems = override(root, overrides)
        findings.extend(problems)
    return root


def _nothing_in(file: File) -> str:
    return "there are only comments in the file" if file.text.strip() else "the file is empty"
