"""A simulation of a pipeline: its seeds are run one by one, and a failing one is shrunk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeAlias

from headrace.cli.errors import Refusal
from headrace.cli.pipeline_tests.checked_tests import CheckedTests
from headrace.cli.pipeline_tests.isolated_plan import Planner
from headrace.cli.simulation.disturbed_run import (
    NOWHERE,
    SimulatedResult,
    compare_results,
    find_test_failure,
    list_compared_streams,
    run_disturbed,
    run_undisturbed,
)
from headrace.cli.simulation.random_case import (
    CaseGenerator,
    RandomCase,
    remove_disturbances,
    replace_faults,
)
from headrace.cli.simulation.reference_result import interpret_case
from headrace.cli.simulation.sample_files import read_sample_files
from headrace.cli.simulation.shrinker import Shrinker
from headrace.cli.simulation.test_entry import EntryWriter
from headrace.core.plan import nodes
from headrace.core.testing.bound_tests import FedRows
from headrace.core.testing.random_rows import NoEventTime, RowSamples
from headrace.core.testing.row_text import UnwritableValue
from headrace.core.testing.stream_checks import Mismatch
from headrace.core.testing.typed_rows import (
    Row,
    get_lookup,
    list_table_columns,
    name_lookup_table,
)
from headrace.core.types.lazy_dataclass import dataclass

UNDISTURBED_HINT = (
    "let the pipeline handle such rows, as by on_error, or take rows of a file: "
    "--sample SOURCE=FILE"
)
REFERENCE_PROBLEM = (
    "an undisturbed run gives other rows than the reference interpreter (-): "
    "this is a fault of headrace, please report it with the entry below"
)
SHRINKING_S = 30.0
"""The longest time for which a failing case is shrunk."""
TEST_SEEDS = range(5)
"""The seeds with which a case is run as a test, until it fails."""
Failure: TypeAlias = "tuple[Sequence[Mismatch], str]"
"""The differences, and the variant of a test that has them; none if a case does not fail."""
FindFailure: TypeAlias = Callable[[RandomCase, SimulatedResult], Failure]
"""Runs a case, of which the undisturbed result is given."""


@dataclass(frozen=True, slots=True)
class FailedSeed:
    """A failing case as small as it was found: how it fails, and the entry of `tests:`."""

    mismatches: Sequence[Mismatch]
    variant: str
    entry: str
    test_seed: int | None
    """The seed with which the entry fails as a test; None: it does not."""


@dataclass(slots=True)
class Simulation:
    """Runs cases of a valid pipeline; `counts` are the totals of all runs so far."""

    tests: CheckedTests
    most_rows: int
    sample_files: Mapping[str, str]
    """The files of rows, by source."""
    planner: Planner = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    interpreted: Counter[str] = field(default_factory=Counter)
    """The number of seeds for which the interpreter has an answer, by stream."""
    _samples: Mapping[str, RowSamples] = field(init=False)
    _tables: Mapping[str, tuple[Row, ...]] = field(init=False)

    def __post_init__(self) -> None:
        loaded = self.tests.checked.loaded_pipeline
        streams = frozenset().union(*(each.streams for each in self.tests.invariants))
        self.planner = Planner(loaded, sorted(streams))
        given = collect_given_rows(self.tests)
        files = read_sample_files(self.sample_files, self.plan)
        self._samples = {name: RowSamples(rows) for name, rows in given.items()} | files
        self._tables = collect_tables(self.tests, self.plan)

    @property
    def plan(self) -> nodes.Plan:
        """The plan at parallelism 1."""
        return self.planner.plan(1)

    @property
    def compared_streams(self) -> list[str]:
        """The streams of which the rows are compared."""
        return list_compared_streams(self.plan)

    def draw_case(self, seed: int) -> RandomCase:
        """Return the case of a seed. Raises Refusal."""
        try:
            return CaseGenerator(
                self.plan, seed, self._samples, self._tables, self.most_rows
            ).draw()
        except NoEventTime as error:
            message = f'no value is known from which "{error}" computes its event time'
            raise Refusal(
                message, "event_time: of a column of type timestamp can be drawn"
            ) from None

    def run_seed(self, seed: int) -> list[Mismatch]:
        """Run a case, and return how its results differ. Raises Refusal."""
        case = self.draw_case(seed)
        expected = run_undisturbed(case, self.planner)
        if expected.failure:
            message = f"seed {seed} fails without any disturbance: {expected.failure}"
            raise Refusal(message, UNDISTURBED_HINT)
        self.counts += Counter(seeds=1, rows=case.row_count)
        meant = interpret_case(case, self.plan)
        self.interpreted.update(meant.streams.keys())
        if wrong := self._compare_with_reference(meant, expected):
            return wrong
        run = run_disturbed(case, self.planner)
        self.counts += run.counts
        mismatches = compare_results(expected, run.get_result(), self.plan)
        return mismatches or self._check_invariants(expected)

    def _compare_with_reference(
        self, meant: SimulatedResult, got: SimulatedResult
    ) -> list[Mismatch]:
        """Return how the result of an undisturbed run differs from the interpreter's."""
        mismatches = compare_results(meant, got, self.plan)
        return [Mismatch(NOWHERE, REFERENCE_PROBLEM), *mismatches] if mismatches else []

    def _check_invariants(self, result: SimulatedResult) -> list[Mismatch]:
        """Return the invariants that the result of an undisturbed run violates."""
        return [
            Mismatch(each.text.locate(), f"{each.text} is false: {violation}")
            for each in self.tests.invariants
            if (violation := each.find_violation(result.streams))
        ]

    def shrink_seed(self, seed: int) -> FailedSeed:
        """Return the smallest case that fails in the way of a failing seed."""
        find, drawn, test_seed = self._choose_failure(self.draw_case(seed))

        def fails(smaller: RandomCase) -> bool:
            return bool(find(smaller, run_undisturbed(smaller, self.planner))[0])

        case = Shrinker(fails, time.monotonic() + SHRINKING_S).shrink(drawn)
        expected = run_undisturbed(case, self.planner)
        mismatches, variant = find(case, expected)
        if find == self._find_reference_difference:
            return self._describe_reference_difference(case, expected, mismatches)
        if test_seed is not None:
            expected = self._select_streams(case, expected, find)
        return FailedSeed(mismatches, variant, self._write_entry(case, expected), test_seed)

    def _describe_reference_difference(
        self, case: RandomCase, got: SimulatedResult, mismatches: Sequence[Mismatch]
    ) -> FailedSeed:
        """Return the report of a case; its entry expects the rows of the interpreter."""
        meant = interpret_case(case, self.plan)
        wrong = {
            name: rows
            for name, rows in meant.streams.items()
            if compare_results(SimulatedResult({name: rows}), got, self.plan)
        }
        meant = SimulatedResult(wrong)
        fails = bool(find_test_failure(case, meant, self.planner, 0)[0])
        return FailedSeed(mismatches, "", self._write_entry(case, meant), 0 if fails else None)

    def _write_entry(self, case: RandomCase, expected: SimulatedResult) -> str:
        try:
            return EntryWriter(self.plan).write(case, expected)
        except UnwritableValue as error:
            return f"# {error}"

    def _choose_failure(self, drawn: RandomCase) -> tuple[FindFailure, RandomCase, int | None]:
        """Return how a case fails, with the case, and the seed of a test that fails like it."""
        expected = run_undisturbed(drawn, self.planner)
        plain = remove_disturbances(drawn)
        if self._find_reference_difference(plain, expected)[0]:
            return self._find_reference_difference, plain, None
        if self._find_violations(drawn, expected)[0]:
            return self._find_violations, drawn, None
        for test_seed in TEST_SEEDS:
            for case in (replace_faults(drawn), replace_faults(drawn, are_before=True)):
                find = partial(self._find_test_failure, test_seed)
                if find(case, expected)[0]:
                    return find, case, test_seed
        return self._find_difference, drawn, None

    def _select_streams(
        self, case: RandomCase, expected: SimulatedResult, find: FindFailure
    ) -> SimulatedResult:
        """Leave out the streams by which a case does not fail as a test."""
        for name in expected.streams:
            fewer = {n: rows for n, rows in expected.streams.items() if n != name}
            smaller = replace(expected, streams=fewer)
            if fewer and find(case, smaller)[0]:
                expected = smaller
        return expected

    def _find_reference_difference(self, case: RandomCase, expected: SimulatedResult) -> Failure:
        if expected.failure:
            return [], ""
        return self._compare_with_reference(interpret_case(case, self.plan), expected), ""

    def _find_violations(self, case: RandomCase, expected: SimulatedResult) -> Failure:
        return ([] if expected.failure else self._check_invariants(expected)), ""

    def _find_test_failure(self, seed: int, case: RandomCase, expected: SimulatedResult) -> Failure:
        if expected.failure:
            return [], ""
        return find_test_failure(case, expected, self.planner, seed)

    def _find_difference(self, case: RandomCase, expected: SimulatedResult) -> Failure:
        if expected.failure:
            return [], ""
        got = run_disturbed(case, self.planner).get_result()
        return compare_results(expected, got, self.plan), ""


def collect_given_rows(tests: CheckedTests) -> dict[str, list[Row]]:
    """Return the rows that the tests of a pipeline give to its sources."""
    samples: dict[str, list[Row]] = {}
    for test in tests.tests:
        for _, event in test.events:
            if isinstance(event, FedRows):
                rows = (row for split in event.splits for row in split)
                samples.setdefault(event.source, []).extend(rows)
    return samples


def collect_tables(tests: CheckedTests, plan: nodes.Plan) -> dict[str, tuple[Row, ...]]:
    """Return the rows of the lookup tables, which a test gives. Raises Refusal."""
    tables: dict[str, tuple[Row, ...]] = {}
    for part in plan:
        lookup = get_lookup(part)
        if lookup is None:
            continue
        given = (test.tables[part.name] for test in tests.tests if test.tables.get(part.name))
        found = next(given, None)
        if found is None:
            columns = ", ".join(f"{name}: ..." for name in list_table_columns(lookup).names)
            message = f'the step "{part.name}" looks up a table, and no test has rows of it'
            name = name_lookup_table(part)
            hint = f"a test in the file with tables: {{{name}: [{{{columns}}}]}} gives them"
            raise Refusal(message, hint)
        tables[part.name] = found
    return tables
