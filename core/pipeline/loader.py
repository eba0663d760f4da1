"""Loading of a pipeline's file: all valid parts, and all problems."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import IntEnum
from pathlib import Path

from headrace.core.errors.problems import Problem, sort_problems
from headrace.core.pipeline.connector_spec import ConnectorSpecs
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.document_reader import START_HINT, DocumentReader
from headrace.core.pipeline.interpolation import (
    SECRET_PREFIX,
    SECRETS_FOLDER_VARIABLE,
    Interpolator,
)
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.node_resolver import NodeResolver
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.nodes import YamlEntry, YamlNode
from headrace.core.pipeline.yaml_document.plain_nodes import build_node
from headrace.core.pipeline.yaml_document.source_file import SourceText, read_source_file
from headrace.core.types.lazy_dataclass import dataclass


class PlanVersion(IntEnum):
    """The rules by which a plan is built. State of earlier ones is resumed with a plan of them."""

    JOIN_KEYS = 1
    """Full joins of tables have keys that two rows may share (decision 0057)."""
    EVENT_TIME_ORDER = 2
    """Rows of tables go by their event time, whatever their sequence (decision 0058)."""
    ROUND_DIFFERENCES = 3
    """Loops over tables send the differences of rounds into the loop (decision 0090)."""
    ROUND_STEPS = 4
    """Fewer steps compute whole tables, so more of such loops send differences (decision 0095)."""
    NEWEST = 5


@dataclass(frozen=True, slots=True)
class PipelineInputs:
    """All that a pipeline was loaded from, as plain data: another process loads the same from it.

    It contains secrets.
    """

    path: Path
    document: SourceText | None
    """The text of the file; None if it could not be read."""
    overrides: tuple[str, ...]
    """The arguments of `--set`."""
    env: Mapping[str, str] = field(repr=False)
    files: Mapping[Path, str] = field(repr=False)
    """The texts of the files that the document names in `${...}`."""
    plan_version: PlanVersion = PlanVersion.NEWEST

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that `${secret:NAME}` may have inserted."""
        own = [text for name, text in self.env.items() if name.startswith(SECRET_PREFIX)]
        if folder := self.env.get(SECRETS_FOLDER_VARIABLE):
            own += [text for path, text in self.files.items() if path.parent == Path(folder)]
        return tuple(dict.fromkeys(filter(None, own)))


@dataclass(frozen=True, slots=True)
class LoadedPipeline:
    """The valid parts of a document, its problems, and the names of its broken parts.

    A reader of a name in `broken_names` gets no problem of its own. With `has_unknown_names`, a
    part of the document could not be read at all, and may have defined any name.
    """

    pipeline: Pipeline
    broken_names: frozenset[str]
    problems: tuple[Problem, ...]
    inputs: PipelineInputs
    has_unknown_names: bool = False
    tests: YamlEntry | None = None
    """The section `tests` of the document, unread."""
    invariants: YamlEntry | None = None
    """The section `invariants`, unread."""

    @property
    def folder(self) -> Path:
        """The folder of the pipeline."""
        return self.inputs.path.parent

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
    text_path: str | Path | None = None,
) -> LoadedPipeline:
    """Load a pipeline; `overrides` are the arguments of `--set`. User errors are never raised.

    The text may be stored at `text_path`; it means the same as if it were in the file at `path`.
    """
    env = dict(os.environ if env is None else env)
    document, problems = read_source_file(path, text_path)
    inputs = PipelineInputs(Path(path), document, tuple(overrides), env, {})
    return _load_inputs(inputs, connectors, problems)


def reload_pipeline(inputs: PipelineInputs, connectors: ConnectorSpecs) -> LoadedPipeline:
    """Load a pipeline again, as it was when its inputs were read."""
    return _load_inputs(inputs, connectors, ())


def load_document(document: Mapping[str, object], connectors: ConnectorSpecs) -> LoadedPipeline:
    """Load a pipeline from the plain values of its document. Its problems have no places."""
    inputs = PipelineInputs(Path("document"), None, (), {}, {})
    root = build_node(SourceText("document", ""), document)
    return _read_root(root, inputs, connectors, DocumentProblems())


def _load_inputs(
    inputs: PipelineInputs, connectors: ConnectorSpecs, problems: Sequence[Problem]
) -> LoadedPipeline:
    findings = DocumentProblems()
    findings.extend(problems)
    root = _compose_root(inputs, findings)
    if root is None:
        problems = tuple(sort_problems(findings.problems))
        return LoadedPipeline(
            Pipeline(Text(inputs.path.stem)), frozenset(), problems, inputs, has_unknown_names=True
        )
    return _read_root(root, inputs, connectors, findings)


def _read_root(
    root: YamlNode, inputs: PipelineInputs, connectors: ConnectorSpecs, findings: DocumentProblems
) -> LoadedPipeline:
    folder = inputs.path.parent
    interpolator = Interpolator(folder, inputs.env, inputs.files)
    reader = DocumentReader(connectors, NodeResolver(interpolator, findings), folder)
    pipeline = reader.read(root, Text(inputs.path.stem))
    problems = tuple(sort_problems(findings.problems))
    inputs = replace(inputs, files=interpolator.files)
    broken, names_lost = frozenset(reader.broken), reader.names_lost
    return LoadedPipeline(
        pipeline, broken, problems, inputs, names_lost, reader.tests, reader.invariants
    )


def _compose_root(inputs: PipelineInputs, findings: DocumentProblems) -> YamlNode | None:
    """Return the document's root after the overrides, if it could be read."""
    from headrace.core.pipeline.yaml_document.composer import compose_document

    file = inputs.document
    if file is None:
        return None
    root, problems = compose_document(file)
    findings.extend(problems)
    if root is None and not problems:
        findings.add(_describe_empty_file(file), file.locate_file(), START_HINT)
    if root is None:
        return None
    if inputs.overrides:
        from headrace.core.pipeline.yaml_document.overrides import apply_overrides

        root, problems = apply_overrides(root, inputs.overrides)
        findings.extend(problems)
    return root


def _describe_empty_file(file: SourceText) -> str:
    return "there are only comments in the file" if file.text.strip() else "the file is empty"
