"""Loading of a pipeline's file: all valid parts, and all problems."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors.problems import Problem, sort_problems
from headrace.core.pipeline.connector_spec import ConnectorSpecs
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.document_reader import START_HINT, DocumentReader
from headrace.core.pipeline.interpolation import Interpolator
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.node_resolver import NodeResolver
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.composer import compose_document
from headrace.core.pipeline.yaml_document.nodes import YamlNode
from headrace.core.pipeline.yaml_document.source_file import SourceText, read_source_file


@dataclass(frozen=True, slots=True)
class LoadedPipeline:
    """The valid parts of a document, its problems, and the names of its broken parts.

    A reader of a name in `broken_names` gets no problem of its own. With `has_unknown_names`, a
    part of the document could not be read at all, and may have defined any name.
    """

    pipeline: Pipeline
    broken_names: frozenset[str]
    problems: tuple[Problem, ...]
    folder: Path
    has_unknown_names: bool = False

    @property
    def is_valid(self) -> bool:
        """Whether all problems are warnings."""
        return all(problem.severity == "warning" for problem in self.problems)


def load_pipeline(
    path: str | Path,
    connectors: ConnectorSpecs,
    *,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> LoadedPipeline:
    """Load a pipeline; `overrides` are the arguments of `--set`. User errors are never raised."""
    folder = Path(path).parent
    default = Text(Path(path).stem)
    findings = DocumentProblems()
    root = _read_root(path, overrides, findings)
    if root is None:
        problems = tuple(sort_problems(findings.problems))
        return LoadedPipeline(
            Pipeline(default), frozenset(), problems, folder, has_unknown_names=True
        )
    interpolator = Interpolator(folder, os.environ if env is None else env)
    reader = DocumentReader(connectors, NodeResolver(interpolator, findings), folder)
    pipeline = reader.read(root, default)
    problems = tuple(sort_problems(findings.problems))
    return LoadedPipeline(pipeline, frozenset(reader.broken), problems, folder, reader.names_lost)


def _read_root(
    path: str | Path, overrides: Sequence[str], findings: DocumentProblems
) -> YamlNode | None:
    """Return the document's root after the overrides, if it could be read."""
    file, problems = read_source_file(path)
    findings.extend(problems)
    if file is None:
        return None
    root, problems = compose_document(file)
    findings.extend(problems)
    if root is None and not problems:
        findings.add(_describe_empty_file(file), file.locate_file(), START_HINT)
    if root is None:
        return None
    if overrides:
        from headrace.core.pipeline.yaml_document.overrides import apply_overrides

        root, problems = apply_overrides(root, overrides)
        findings.extend(problems)
    return root


def _describe_empty_file(file: SourceText) -> str:
    return "there are only comments in the file" if file.text.strip() else "the file is empty"
