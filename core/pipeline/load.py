"""Load a pipeline's file: all of it that is sound, and everything that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.contracts import Connectors
from headrace.core.pipeline.compose import compose
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.nodes import Scalar
from headrace.core.pipeline.parts import Reader
from headrace.core.pipeline.reading import read
from headrace.core.pipeline.resolve import Resolver
from headrace.core.pipeline.text import Text
from headrace.core.problems import Problem, sort_problems


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is sound, what is wrong, and the names that stand for what could not be taken.

    Whoever reads a name in `broken` needs no complaint of its own.
    """

    pipeline: Pipeline
    broken: frozenset[str]
    problems: tuple[Problem, ...]
    folder: Path

    @property
    def ok(self) -> bool:
        """Whether there is nothing but warnings."""
        return all(problem.severity == "warning" for problem in self.problems)


def load(
    path: str | Path,
    connectors: Connectors,
    *,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Loaded:
    """Read a pipeline; `overrides` are the arguments of `--set`. Raises nothing of a user's."""
    folder = Path(path).parent
    empty = Pipeline(Text(Path(path).stem))
    file, problems = read(path)
    if file is None:
        return Loaded(empty, frozenset(), tuple(problems), folder)
    root, found = compose(file)
    problems += found
    if root is None:
        return Loaded(empty, frozenset(), tuple(sort_problems(problems)), folder)
    resolver = Resolver(folder, os.environ if env is None else env)
    reader = Reader(connectors, resolver, folder)
    pipeline, broken = reader.pipeline(root, Text(file.name, Scalar(file, 0, 0, "")), empty.name)
    problems += [*resolver.problems, *reader.problems]
    return Loaded(pipeline, frozenset(broken), tuple(sort_problems(problems)), folder)
