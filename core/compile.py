"""Construction of the operator chain of a task from its steps.

Adjacent `where`, `select`, `with` and `drop` operations become one operator, across steps; every
other operation becomes an operator of its own. Streams between the operators of a step have
internal names, which no pipeline can use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.core import dead_letters
from headrace.core.keygroups import owned
from headrace.core.operators.columns import Columns
from headrace.core.operators.explode import Explode
from headrace.core.operators.map import FailedRow, Map
from headrace.core.operators.operator import Chain, Operator, Output, TwoSided
from headrace.core.operators.place import Place
from headrace.core.operators.route import Route
from headrace.core.ordinals import numbers, placed
from headrace.core.owner import Owner
from headrace.core.plan import nodes
from headrace.core.plan.matching import Connected, Everywhere
from headrace.core.state import Counts, Frozen, StateBackend, StepState
from headrace.core.user_code import UserCode

if TYPE_CHECKING:
    from headrace.core.lookup.stage import Stage
    from headrace.core.operators.process.around import Around


Made = TypeVar("Made", bound=Operator)
"""A type of operator."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The job's clock, pipeline folder, streams with readers, and state backend, for operators."""

    now_us: Callable[[], int]
    folder: Path
    read: frozenset[str]
    backend: StateBackend


@dataclass(frozen=True, slots=True)
class Seat:
    """The share of one subtask in its task: its index, key groups, and states to restore."""

    index: int
    parallelism: int
    key_groups: int
    restored: Mapping[str, tuple[Frozen, ...]] = field(default_factory=dict)
    """The restored states of all subtasks, by step; each subtask takes its key groups of them."""

    @property
    def groups(self) -> range:
        """The key groups that the subtask owns."""
        return owned(self.index, self.parallelism, self.key_groups)


@dataclass(slots=True)
class Compiled:
    """The operators of a subtask, with their states and their counts of rows."""

    chain: Chain | None
    columns: list[Columns] = field(default_factory=list)
    ends: set[str] = field(default_factory=set)
    """The steps whose output leaves an operator, so that the chain counts it."""
    failed: dict[str, int] = field(default_factory=dict)
    """The number of rows on which user code failed, by step."""
    failed_before: dict[str, int] = field(default_factory=dict)
    """The same of earlier attempts; the order of dead letters continues from there."""
    states: dict[str, list[StepState]] = field(default_factory=dict)
    """The open states by step: one each, or one per clock (`PerClockOperator`)."""
    lookup: Stage | None = None
    """The lookup of the first step; it precedes the chain."""
    before: Chain | None = None
    """The operators of the first step that precede its lookup."""

    def close(self) -> None:
        """Close all states."""
        for states in self.states.values():
            for state in states:
                state.close()

    def late_and_unfilled(self, step: str) -> Counts:
        """Return the counters of a step, summed over its states."""
        counts = [state.counts for state in self.states[step]]
        return Counts(sum(c.late for c in counts), sum(c.unfilled for c in counts))

    def left(self, step: nodes.Step, came: int) -> int:
        """Return the number of output rows of a step that has received `came` rows."""
        if self.lookup is not None and self.lookup.leaves == step.name:
            return self.lookup.put_out
        if self.chain is not None and step.name in self.ends:
            return sum(self.chain.put_out[out.name] for out in step.rows)
        passed = [
            columns.passed[step.name] for columns in self.columns if step.name in columns.passed
        ]
        return passed[-1] if passed else came


def compile_steps(steps: Sequence[nodes.Step], context: Setting, subtask: Seat) -> Compiled:
    """Build the operators of consecutive steps; without steps there is no chain."""
    compiled = Compiled(None)
    work = [(step, operation) for step in steps for operation in step.operations or (None,)]
    operators: list[tuple[str, Operator]] = []
    two_sided: TwoSided | None = None
    name = steps[0].name + "#" if steps else ""
    at = 0
    while at < len(work):
        step, operation = work[at]
        run = _run(work, at)
        last = work[at + len(run) - 1][0] if run else step
        at += max(len(run), 1)
        ends = at == len(work) or work[at][0] is not last
        if ends:
            compiled.ends.add(last.name)
        output_stream = last.name if ends else f"{last.name}#{at}"
        if run or operation is None:
            columns = Columns(output_stream, run, context.now_us)
            compiled.columns.append(columns)
            operators.append((name, columns))
        else:
            factory = _Making(step, output_stream, context, subtask, compiled)
            if isinstance(operation, nodes.Lookup):
                assert step is steps[0], "a step that looks rows up begins a task"
                compiled.lookup = factory.lookup(operation, name)
                compiled.before = Chain(operators) if operators else None
                operators = []
            elif isinstance(operation, nodes.TwoSided):
                assert not operators, "a step with two inputs begins a task"
                two_sided = factory.two_sided(operation)
                operators.append((name, two_sided))
            else:
                operators.append((name, factory.operator(operation)))
        name = work[at][0].inputs[0] if ends and at < len(work) else output_stream
    compiled.chain = Chain(operators, two_sided) if operators else None
    return compiled


def _run(
    work: Sequence[tuple[nodes.Step, nodes.Operation | None]], at: int
) -> list[tuple[str, nodes.Filter | nodes.Project]]:
    """Return the adjacent column operations from `at` on, which become one operator."""
    run: list[tuple[str, nodes.Filter | nodes.Project]] = []
    for step, operation in work[at:]:
        if not isinstance(operation, nodes.Filter | nodes.Project):
            break
        run.append((step.name, operation))
    return run


@dataclass(frozen=True, slots=True)
class _Making:
    """Builds the operators of a step's operations; their output is the stream `output_stream`."""

    step: nodes.Step
    leaves: str
    setting: Setting
    seat: Seat
    compiled: Compiled

    def operator(self, operation: nodes.Operation) -> Operator:
        """Build the operator of an operation."""
        match operation:
            case nodes.Explode():
                return Explode(self.leaves, operation)
            case nodes.Route():
                return Route(self.step.name, operation, self.setting.read)
            case nodes.Map():
                failed = self._fail if self.step.on_error != "fail" else None
                return Map(self.step.name, self.leaves, operation, self.setting.folder, failed)
            case nodes.Aggregate() | nodes.Apply() | nodes.Top() | nodes.Dedup():
                return self._keyed(operation)
            case nodes.Process():
                return self._process(operation)
        raise AssertionError(operation)

    def _process(self, operation: nodes.Process) -> Operator:
        """Build the operator of a user's class, one for each clock."""
        from headrace.core.operators.process.make import process_operator

        call_context = self._around(operation.body)
        parts = self._parts(
            lambda keyed_context: process_operator(operation, keyed_context, call_context)
        )
        return self._together(operation.key, parts)

    def _parts(self, factory: Callable[[Place], Made]) -> list[tuple[range, Made]]:
        """Build an operator for each range of key groups with the same clock."""
        return [(each.groups, factory(self._place(each))) for each in self._owner().divided()]

    def _together(
        self, key: Sequence[nodes.Computed], parts: list[tuple[range, Operator]]
    ) -> Operator:
        """Combine the operators of several clocks into one."""
        from headrace.core.operators.divided import Divided

        return parts[0][1] if len(parts) == 1 else Divided(key, self.seat.key_groups, parts)

    def _around(self, body: nodes.Body) -> Around:
        """Build the call context of an operator of a user's class."""
        from headrace.core.operators.process.around import Around

        step = self.step
        code = UserCode(self.setting.folder, body.file, body.name)
        failed = self._fail if step.on_error != "fail" else None
        ordered = {stream.name for stream in step.rows if stream.ordered}
        main = {self.leaves} if self.leaves != step.name and step.name in ordered else set()
        return Around(step.name, code, failed, frozenset(ordered | main))

    def lookup(self, operation: nodes.Lookup, reads: str) -> Stage:
        """Build the lookup of the rows of stream `reads`."""
        from headrace.core.lookup.stage import Stage

        step, context = self.step, self.setting
        failed = self._fail if step.on_error != "fail" else None
        return Stage(
            step.name,
            (reads, self.leaves),
            operation,
            context.now_us,
            failed,
            reads_missed=operation.missed in context.read,
        )

    def _keyed(self, operation: nodes.Keyed) -> Operator:
        """Build a keyed operator, one for each clock."""
        # Loaded only for pipelines with keyed steps, because it loads all aggregates.
        from headrace.core.operators.blamed import Blamed
        from headrace.core.operators.keyed import keyed_operator
        from headrace.core.plan.user_windows import codes_of

        parts = self._parts(lambda keyed_context: keyed_operator(operation, keyed_context))
        made = self._together(operation.key, parts)
        codes = codes_of(operation)
        return Blamed(self.step.name, codes, made) if codes else made

    def two_sided(self, operation: nodes.TwoSided) -> TwoSided:
        """Build an operator of two inputs, one for each clock."""
        from headrace.core.operators.joins.make import join_operator

        if isinstance(operation.matching, Connected):
            return self._connected(operation, operation.matching)
        if isinstance(operation.matching, Everywhere):
            keyed_context = self._place(owner := self._owner())
            # The restored rows come from all subtasks: with the least clock none of them is late.
            keyed_context.state.clock_us = owner.least_clock_us
            return join_operator(operation, keyed_context)
        return self._both(
            operation, self._parts(lambda keyed_context: join_operator(operation, keyed_context))
        )

    def _connected(self, operation: nodes.Join, matching: Connected) -> TwoSided:
        """Build the operator of a user's class with two inputs."""
        from headrace.core.operators.divided import DividedBeside
        from headrace.core.operators.process.make import process_two

        call_context = self._around(matching.body)
        parts = self._parts(
            lambda keyed_context: process_two(operation, matching, keyed_context, call_context)
        )
        if matching.everywhere and len(parts) > 1:
            return DividedBeside(operation.left.key, self.seat.key_groups, parts)
        return self._both(operation, parts)

    def _both(self, operation: nodes.Join, parts: Sequence[tuple[range, TwoSided]]) -> TwoSided:
        """Combine the operators of several clocks, with two keyed inputs, into one."""
        from headrace.core.operators.divided import DividedSides

        if len(parts) == 1:
            return parts[0][1]
        return DividedSides(operation.keys, self.seat.key_groups, parts)

    def _owner(self) -> Owner:
        """Return the ownership of the step's state in this subtask."""
        step, subtask = self.step.name, self.seat
        restored = subtask.restored.get(step, ())
        return Owner(step, subtask.index, subtask.groups, subtask.key_groups, restored)

    def _place(self, owner: Owner) -> Place:
        step, context = self.step, self.setting
        state = context.backend.open(owner)
        self.compiled.states.setdefault(step.name, []).append(state)
        ordered = any(stream.ordered for stream in step.rows)
        first = owner.groups.start == 0
        return Place(self.leaves, state, context.now_us, ordered, context.read, first)

    def _fail(self, rows: list[FailedRow]) -> Iterator[Output]:
        """Count the rows on which user code failed, and emit them as dead letters if requested."""
        step, compiled = self.step, self.compiled
        failed = compiled.failed.get(step.name, 0)
        compiled.failed[step.name] = failed + len(rows)
        before = compiled.failed_before.get(step.name, 0) + failed
        if step.on_error != "skip":
            pairs = ((row.error, row.row) for row in rows)
            letters = dead_letters.of_rows(step.name, pairs, self.setting.now_us())
            if any(out.ordered for out in step.outputs if out.name == step.on_error):
                letters = placed(letters, numbers(0, self.seat.index, before, len(rows)))
            yield step.on_error, letters
