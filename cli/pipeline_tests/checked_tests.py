"""The tests of a pipeline, checked against its plan; all mistakes in them are reported together."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import CheckedPipeline, check_pipeline
from headrace.core.errors.problems import Problem, sort_problems
from headrace.core.pipeline.pipeline_tests.tests_loader import (
    PipelineTestFile,
    find_test_file,
    is_test_file,
    load_tests,
    read_test_file,
)
from headrace.core.testing.bound_tests import BoundTest, FedRecords, bind_tests
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.plan.nodes import Plan
    from headrace.core.testing.invariants import Invariant


@dataclass(slots=True)
class Suite:
    """The tests of one pipeline: of its section `tests`, if wanted, and of test files."""

    pipeline: str
    with_section: bool = False
    files: list[PipelineTestFile] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CheckedTests:
    """The tests of a valid pipeline, or the problems of it and of its tests."""

    checked: CheckedPipeline
    tests: Sequence[BoundTest]
    problems: Sequence[Problem]
    warnings: Sequence[Problem] = ()
    """Those of the problems that do not keep the tests from running, and may explain a result."""
    invariants: Sequence[Invariant] = ()

    @property
    def is_valid(self) -> bool:
        """Whether the tests can run: there are no errors."""
        return all(problem.severity == "warning" for problem in self.problems)


def find_suites(paths: Sequence[str]) -> list[Suite]:
    """Return the suites of pipelines, test files and folders. Raises Refusal."""
    suites: dict[str, Suite] = {}
    for path in _list_files(paths):
        if is_test_file(Path(path)):
            file = read_test_file(Path(path))
            suite = suites.setdefault(str(file.pipeline), Suite(str(file.pipeline)))
            if all(each.path != file.path for each in suite.files):
                suite.files.append(file)
        else:
            suite = suites.setdefault(path, Suite(path))
            suite.with_section = True
            paths_read = [each.path for each in suite.files]
            suite.files += [f for f in read_files_beside(path) if f.path not in paths_read]
    return list(suites.values())


def read_files_beside(pipeline: str) -> list[PipelineTestFile]:
    """Return the test file beside a pipeline, if there is one."""
    path = find_test_file(Path(pipeline))
    return [] if path is None else [read_test_file(path)]


def _list_files(paths: Sequence[str]) -> Iterator[str]:
    """Yield files as given, and of folders those with tests in them."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        found = [os.path.normpath(f"{path}/{name}") for name in sorted(os.listdir(path))]
        yield from filter(_may_have_tests, found)


def _may_have_tests(path: str) -> bool:
    if not path.endswith((".yaml", ".yml")) or not os.path.isfile(path):
        return False
    if is_test_file(Path(path)):
        return True
    with open(path, "rb") as file:
        return any(line.startswith(b"tests:") for line in file)


def check_suite(suite: Suite, overrides: Sequence[str]) -> CheckedTests:
    """Check a pipeline and its tests."""
    checked = check_pipeline(suite.pipeline, overrides)
    if not suite.with_section and not os.path.isfile(suite.pipeline):
        checked = replace(checked, problems=())  # the test files say so, with the place
    return check_tests(checked, suite.files, with_section=suite.with_section)


def check_tests(
    checked: CheckedPipeline, files: Sequence[PipelineTestFile], *, with_section: bool = True
) -> CheckedTests:
    """Check the tests of a pipeline."""
    loaded = load_tests(checked.loaded_pipeline, files, with_section=with_section)
    bound: Sequence[BoundTest] = ()
    invariants: Sequence[Invariant] = ()
    problems = list(loaded.problems)
    if checked.plan is not None:
        bound, more = bind_tests(loaded.tests, checked.plan)
        problems += more
        problems += check_records(bound, checked.plan)
        if loaded.invariants:
            from headrace.core.testing.invariants import bind_invariants

            invariants, more = bind_invariants(loaded.invariants, checked.plan)
            problems += more
    warnings = tuple(find_clock_warnings(checked)) if bound else ()
    problems = [*checked.problems, *sort_problems(problems), *warnings]
    return CheckedTests(checked, bound, problems, warnings, invariants)


def find_clock_warnings(checked: CheckedPipeline) -> Iterator[Problem]:
    """Yield a warning for each call of the real clock in a class of the pipeline."""
    from headrace.core.testing.clock_calls import find_clock_calls

    if checked.plan is not None:
        yield from find_clock_calls(checked.plan, checked.loaded_pipeline.folder)


def check_records(tests: Collection[BoundTest], plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each bad record that its source can read."""
    for test in tests:
        for _, event in test.events:
            if not isinstance(event, FedRecords):
                continue
            from headrace.cli.pipeline_tests.record_decoding import decode_bad_record
            from headrace.core.plan import nodes

            source = plan.part(event.source)
            assert isinstance(source, nodes.Source), source
            for record in event.records:
                if decode_bad_record(source, record) is None:
                    message = f'"{event.source}" can read this record'
                    hint = f"as a row: - {event.source}: [{{...}}]"
                    yield Problem(message, record.locate(), hint, test.test.subject)


def select_tests(checked: Sequence[CheckedTests], word: str) -> list[list[BoundTest]]:
    """Return the tests of each suite whose names contain a word. Raises Refusal if none does."""
    selected = [
        [test for test in suite.tests if word.lower() in test.test.name.lower()]
        for suite in checked
    ]
    if word and not any(selected):
        raise Refusal(f'no test has "{word}" in its name')
    return selected
