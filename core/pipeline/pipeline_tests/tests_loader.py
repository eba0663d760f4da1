"""Loading of the tests of a pipeline: of its file, and of the file `NAME.test.yaml` beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.core.errors.problems import Problem, sort_problems, suggest_name
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.interpolation import Interpolator
from headrace.core.pipeline.loader import LoadedPipeline
from headrace.core.pipeline.node_resolver import NodeResolver, quote_key
from headrace.core.pipeline.pipeline_tests.model import PipelineTest
from headrace.core.pipeline.pipeline_tests.reader import PipelineTestReader
from headrace.core.pipeline.pipeline_tests.section_nodes import SectionNodes
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import ScalarReading
from headrace.core.pipeline.yaml_document.composer import compose_document
from headrace.core.pipeline.yaml_document.nodes import YamlEntry, YamlMapping, YamlScalar
from headrace.core.pipeline.yaml_document.source_file import read_source_file
from headrace.core.types.lazy_dataclass import dataclass

SUFFIX = ".test"
"""The suffix of the names of test files, before that of YAML."""
FILE_KEYS = ("pipeline", "tests", "invariants")
EXPRESSION = ScalarReading("an expression, such as sum(totals.total) > 0", lambda text: text)


@dataclass(frozen=True, slots=True)
class LoadedTests:
    """The tests without mistakes in their form, and all such mistakes."""

    tests: tuple[PipelineTest, ...]
    invariants: tuple[Text, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class PipelineTestFile:
    """A test file: the path of its pipeline, and its tests."""

    path: Path
    pipeline: Path
    tests: KeyedNode | None = None
    invariants: KeyedNode | None = None
    problems: tuple[Problem, ...] = ()


def is_test_file(path: Path) -> bool:
    """Whether a path is that of a test file: `shop.test.yaml`."""
    return path.suffix in (".yaml", ".yml") and path.stem.endswith(SUFFIX)


def find_test_file(pipeline: Path) -> Path | None:
    """Return the test file beside a pipeline, if there is one."""
    if not pipeline.stem:
        return None  # a path such as "." or "/"
    path = find_test_path(pipeline)
    return path if os.path.isfile(path) else None


def find_test_path(pipeline: Path) -> Path:
    """Return the path of the test file beside a pipeline."""
    return pipeline.with_name(f"{pipeline.stem}{SUFFIX}{pipeline.suffix}")


def read_test_file(path: Path) -> PipelineTestFile:
    """Read the names in a test file; its tests stay nodes."""
    beside = path.with_name(f"{path.stem.removesuffix(SUFFIX)}{path.suffix}")
    file, problems = read_source_file(path)
    if file is None:
        return PipelineTestFile(path, beside, problems=tuple(problems))
    root, problems = compose_document(file)
    findings = DocumentProblems()
    findings.extend(problems)
    if not isinstance(root, YamlMapping):
        if not problems:
            findings.add("wanted a mapping with tests", file.locate_file(), "as in tests: [...]")
        return PipelineTestFile(path, beside, problems=tuple(findings.problems))
    for entry in root.entries:
        if entry.key.value not in FILE_KEYS:
            key = Text(entry.key.value, entry.key)
            hint = suggest_name(key, FILE_KEYS) or f"a test file has {', '.join(FILE_KEYS)}"
            findings.add(f"unknown key {quote_key(key)}", key.locate(), hint)
    pipeline = _find_pipeline(root, beside, findings)
    tests, invariants = _key(root.get("tests")), _key(root.get("invariants"))
    if tests is None and invariants is None:
        findings.add('missing key "tests"', file.locate(root.start, root.start + 1))
    return PipelineTestFile(path, pipeline, tests, invariants, tuple(findings.problems))


def _key(entry: YamlEntry | None) -> KeyedNode | None:
    return None if entry is None else KeyedNode(Text(entry.key.value, entry.key), entry.value)


def _find_pipeline(root: YamlMapping, beside: Path, findings: DocumentProblems) -> Path:
    """Return the pipeline that a test file names, else that of the same name beside it."""
    named = root.get("pipeline")
    if named is None:
        if not os.path.isfile(beside):
            message = f"there is no {beside.name} beside this file"
            place = root.file.locate(root.start, root.start + 1)
            findings.add(message, place, "name the pipeline, as in pipeline: ../shop.yaml")
        return beside
    if not isinstance(named.value, YamlScalar) or named.value.is_null:
        place = Text(named.key.value, named.key).locate()
        findings.add("pipeline: wanted the path of a pipeline", place)
        return beside
    path = beside.parent / named.value.value
    if not os.path.isfile(path):
        place = Text(named.value.value, named.value).locate()
        findings.add(f"there is no file {path}", place, "the path starts at the test file")
    return path


def load_tests(
    loaded: LoadedPipeline, files: Sequence[PipelineTestFile], *, with_section: bool = True
) -> LoadedTests:
    """Load the tests and invariants of a pipeline: of its file, if wanted, and of test files."""
    findings = DocumentProblems()
    interpolator = Interpolator(loaded.folder, loaded.inputs.env, loaded.inputs.files)
    reader = PipelineTestReader(SectionNodes(NodeResolver(interpolator, findings)))
    invariants = list[Text]()
    own = (_key(loaded.tests), _key(loaded.invariants)) if with_section else (None, None)
    for tests, conditions in (own, *((file.tests, file.invariants) for file in files)):
        if tests is not None:
            reader.read(tests)
        if conditions is not None:
            invariants += _read_invariants(conditions, reader.nodes)
    for file in files:
        findings.extend(file.problems)
    problems = tuple(sort_problems(findings.problems))
    return LoadedTests(tuple(reader.tests), tuple(invariants), problems)


def _read_invariants(spot: KeyedNode, nodes: SectionNodes) -> Iterator[Text]:
    """Yield the texts of invariants."""
    nodes.subject = ""
    wanted = "a list of conditions, such as [sum(totals.total) = sum(orders.amount)]"
    for item in nodes.read_items(spot, wanted) or ():
        text: Text | None = nodes.read_scalar(item, EXPRESSION)
        if text is not None:
            yield text
