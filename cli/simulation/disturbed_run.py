"""The runs of a random case: undisturbed, disturbed by faults, and as a test would run it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from headrace.cli.pipeline_tests.isolated_plan import SINK_SUFFIX, Planner
from headrace.cli.pipeline_tests.runner import Variant, VariantRun, list_variants
from headrace.cli.pipeline_tests.simulated_job import JobStuck
from headrace.cli.simulation.faulty_memory import SLOWEST_TURNS, FaultyMemory
from headrace.cli.simulation.random_case import Fault, RandomCase, is_disturbance
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.user_code import forget_modules
from headrace.core.errors.problems import Location
from headrace.core.pipeline.pipeline_tests.model import (
    ControlEvent,
    Expectation,
    PipelineTest,
    Rescale,
    StreamExpectation,
)
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.testing.bound_tests import (
    BoundEvent,
    BoundTest,
    Expected,
    ExpectedStream,
    FedIdleness,
    FedRows,
    FedWatermark,
)
from headrace.core.testing.stepped_loop import ProcessKilled
from headrace.core.testing.stream_checks import Mismatch, check_rows
from headrace.core.testing.typed_rows import Row
from headrace.core.testing.visible_rows import fold_changes, have_equal_rows
from headrace.core.types.data_types import FLOAT_TYPES, Schema
from headrace.core.types.lazy_dataclass import dataclass

FEEDS = (FedRows, FedWatermark, FedIdleness)
"""The events that outlive the process."""
NOWHERE = Location("simulation", 0, 0, 0, "")
TOLERANCE = 1e-9
"""By how much doubles may differ, which are added in another order."""


@dataclass(frozen=True, slots=True)
class SimulatedResult:
    """The rows of each stream, as tables where they replace each other; or why there are none."""

    streams: Mapping[str, Sequence[Row]]
    failure: str = ""


@dataclass(slots=True)
class DisturbedRun(VariantRun):
    """A run with faults: a process that dies resumes from its last checkpoint.

    An event in which it dies is repeated, unless it has given rows: these are there.
    """

    faults: Mapping[int, Fault] = field(default_factory=dict)
    """The faults by the number of the event."""
    counts: Counter[str] = field(default_factory=Counter)
    """The number of crashes, and of events of each kind."""
    _next: int = 0
    """The number of the next event."""
    _is_repeated: bool = False

    def run(self) -> list[Mismatch]:
        """Run the case to its end, or to its first mismatch."""
        while self._next < len(self.test.events) and not self.mismatches:
            forget_modules()
            try:
                self.job.live(self._drive)
            except ProcessKilled:
                self._note_crash()
        return self.mismatches

    def _note_crash(self) -> None:
        self.counts["crashes"] += 1
        self._is_repeated = True

    async def _drive(self) -> None:
        memory = self.job.memory
        if isinstance(memory, FaultyMemory) and memory.has_failed:
            # The commit of restored output has failed.
            memory.set_fault(None)
            self.counts["crashes"] += 1
            return
        while self._next < len(self.test.events) and not self.mismatches:
            _, event = self.test.events[self._next]
            if event == ControlEvent("restart"):
                self.counts["restarts"] += 1
                self._next += 1
                return
            fault = None if self._is_repeated else self.faults.get(self._next)
            if isinstance(memory, FaultyMemory):
                memory.set_fault(fault)
            self.job.kill_after(fault.number if fault and fault.at == "turn" else None)
            try:
                await self._handle(event)
            except JobStuck as stuck:
                self.mismatches.append(Mismatch(NOWHERE, str(stuck)))
            self.job.kill_after(None)
            if isinstance(memory, FaultyMemory) and memory.has_failed:
                self._note_crash()
                return
            if self.job.failure and not self.mismatches:
                message = f"the job has failed: {self.job.failure}"
                self.mismatches.append(Mismatch(NOWHERE, message))
            self._count(event)
            self._next, self._is_repeated = self._next + 1, False
            if event == ControlEvent("savepoint"):
                return

    async def _handle(self, event: BoundEvent) -> None:
        if self._is_repeated and isinstance(event, FEEDS):
            await self.job.rest()
        else:
            await self._apply(event, NOWHERE)

    def _count(self, event: BoundEvent) -> None:
        match event:
            case Rescale():
                self.counts["restarts"] += 1
            case ControlEvent("savepoint"):
                self.counts["savepoints"] += 1

    def get_result(self) -> SimulatedResult:
        """Return the visible rows."""
        if self.mismatches:
            return SimulatedResult({}, self.mismatches[0].message)
        streams = list_compared_streams(self.job.plan)
        return SimulatedResult(
            {
                name: fold_changes(self.job.get_rows(name), self.job.get_stream(name).kind)
                for name in streams
            }
        )


def list_compared_streams(plan: nodes.Plan) -> list[str]:
    """Return the streams with a sink."""
    sinks = (part.name for part in plan if isinstance(part, nodes.Sink))
    return [name.removesuffix(SINK_SUFFIX) for name in sinks]


def run_undisturbed(case: RandomCase, planner: Planner) -> SimulatedResult:
    """Run only what is given to a job, at parallelism 1."""
    events = [event for event in case.events if not is_disturbance(event)]
    run = DisturbedRun(build_test(case, events), planner, Variant("", 1), 0)
    run.run()
    return run.get_result()


def run_disturbed(case: RandomCase, planner: Planner) -> DisturbedRun:
    """Run a case with all its faults."""
    events, faults = list[BoundEvent](), dict[int, Fault]()
    for step in case.steps:
        if step.fault is not None:
            faults[len(events)] = step.fault
        events += step.events
    chance = random.Random(case.seed)
    variant = Variant("", case.parallelism, is_cut=chance.random() < 0.8)
    run = DisturbedRun(build_test(case, events), planner, variant, case.seed, faults=faults)
    tables = {step: LookupTableData(rows) for step, rows in run.job.tables.items()}
    turns = chance.choice(SLOWEST_TURNS)
    run.job.memory = FaultyMemory(tables=tables, chance=chance, slowest_turns=turns)
    run.run()
    return run


def find_test_failure(
    case: RandomCase, expected: SimulatedResult, planner: Planner, seed: int
) -> tuple[list[Mismatch], str]:
    """Return why a case without faults fails as a test, and in which variant."""
    test = build_test(case, case.events, expected, planner.plan(1))
    for variant in list_variants(planner.plan(1).key_groups, seed, None):
        if mismatches := VariantRun(test, planner, variant, seed).run():
            return mismatches, variant.name
    return [], ""


def build_test(
    case: RandomCase,
    events: Iterable[BoundEvent],
    expected: SimulatedResult | None = None,
    plan: nodes.Plan | None = None,
) -> BoundTest:
    """Build the test of these events; with a result, it expects that last."""
    listed = [(NOWHERE, event) for event in events]
    if expected is not None and plan is not None:
        streams = tuple(_expect(plan, name, rows) for name, rows in expected.streams.items())
        written = Expectation(tuple(each.written for each in streams))
        listed.append((NOWHERE, Expected(written, streams)))
    test = PipelineTest(Text(name_test(case)), NOWHERE, None, (), {})
    return BoundTest(test, tuple(listed), case.tables, case.split_counts)


def name_test(case: RandomCase) -> str:
    """Return the name of a case as a test."""
    return f"simulated, seed {case.seed}"


def _expect(plan: nodes.Plan, name: str, rows: Sequence[Row]) -> ExpectedStream:
    stream = plan.streams[name]
    tolerance = TOLERANCE if has_doubles(stream.schema) else 0.0
    written = StreamExpectation(Text(name), NOWHERE, (), tolerance=tolerance)
    return ExpectedStream(written, stream, tuple(rows), None, None)


def has_doubles(schema: Schema) -> bool:
    """Whether a column has values whose sum depends on their order."""
    return any(field.type in FLOAT_TYPES for field in schema)


def compare_results(
    expected: SimulatedResult, got: SimulatedResult, plan: nodes.Plan
) -> list[Mismatch]:
    """Return how the result of a run differs from the expected one."""
    if got.failure:
        return [Mismatch(NOWHERE, got.failure)]
    found = list[Mismatch]()
    for name, rows in expected.streams.items():
        if not have_equal_rows(rows, got.streams[name]):
            wanted = _expect(plan, name, rows)
            found += check_rows(wanted, got.streams[name], is_ordered=False)
    return found
