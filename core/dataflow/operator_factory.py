"""Construction of the operator chain of a task from its segments.

A keyed operator is built once for each clock of its key groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.core.api.state import FrozenState, StepCounters, StepState, add_counters
from headrace.core.api.state_backend import StateBackend, StateOwnership
from headrace.core.api.user_code import UserCode
from headrace.core.dataflow.segments import Segment, cut_segments
from headrace.core.operators import dead_letters
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.map import MapOperator
from headrace.core.operators.operator import (
    FailedRow,
    Operator,
    OperatorChain,
    Output,
    RoundOperator,
    TwoInputOperator,
)
from headrace.core.operators.rejected_rows import RejectedRowSampler
from headrace.core.operators.round_budget import RoundBudget
from headrace.core.operators.stateless_operators import (
    ChangeColumnOperator,
    ExplodeOperator,
    ProjectionOperator,
    RouteOperator,
    RowTimeOperator,
    WeightConversionOperator,
)
from headrace.core.operators.wrappers import (
    ErrorAttributingOperator,
    PerClockBroadcastOperator,
    PerClockOperator,
    PerClockTwoInputOperator,
)
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import BroadcastMatch, ConnectedMatch, RuleMatch
from headrace.core.plan.row_expressions import (
    RowExpression,
    find_fallible_expressions,
    find_fallible_keys,
    is_fallible_operation,
    without_failures,
)
from headrace.core.types.key_groups import compute_owned_groups
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import add_row_order, number_rows

if TYPE_CHECKING:
    from headrace.core.operators.checked_rows import CheckedRows
    from headrace.core.operators.lookup.lookup_join import LookupJoin
    from headrace.core.operators.loop_head import LoopHead
    from headrace.core.operators.process.process_operator import UserCodeContext
    from headrace.core.operators.table_rounds import TableRoundsHead


OperatorT = TypeVar("OperatorT", bound=Operator)
"""A type of operator."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The job's clock, pipeline folder, streams with readers, and state backend, for operators."""

    now_us: Callable[[], int]
    folder: Path
    consumed_streams: frozenset[str]
    backend: StateBackend


@dataclass(frozen=True, slots=True)
class SubtaskSlice:
    """The share of one subtask in its task: its index, key groups, and states to restore."""

    index: int
    parallelism: int
    key_groups: int
    restored_states: Mapping[str, tuple[FrozenState, ...]] = field(default_factory=dict)
    """The restored states of all subtasks, by step; each subtask takes its key groups of them."""
    is_restored: bool = False
    """Whether the job resumes from a checkpoint; that has no states of subtasks that had ended."""
    is_aligned: bool = True
    """Whether checkpoints are aligned."""

    @property
    def groups(self) -> range:
        """The key groups that the subtask owns."""
        return compute_owned_groups(self.index, self.parallelism, self.key_groups)


@dataclass(slots=True)
class SubtaskOperators:
    """The operators of a subtask, with their states and their counts of rows."""

    chain: OperatorChain | None
    column_operators: list[ProjectionOperator] = field(default_factory=list)
    counted_steps: set[str] = field(default_factory=set)
    """The steps whose output leaves an operator, so that the chain counts it."""
    failed_rows: dict[str, int] = field(default_factory=dict)
    """The number of rows on which a step failed, by step."""
    failed_rows_before: dict[str, int] = field(default_factory=dict)
    """The same of earlier attempts; the order of dead letters continues from there."""
    rejected_rows: dict[str, RejectedRowSampler] = field(default_factory=dict)
    """Samples of the rows that came into no result, by step."""
    states: dict[str, list[StepState]] = field(default_factory=dict)
    """The open states by step: one each, or one per clock (`PerClockOperator`)."""
    lookup_join: LookupJoin | None = None
    """The lookup of the first step; it precedes the chain."""
    loop_head: LoopHead | TableRoundsHead | None = None
    """The operator at the head of a loop, if that is the step."""
    chain_before_lookup: OperatorChain | None = None
    """The operators of the first step that precede its lookup."""

    def close(self) -> None:
        """Close all states."""
        for states in self.states.values():
            for state in states:
                state.close()

    def sum_counters(self, step: str) -> StepCounters:
        """Return the counters of a step, summed over its states."""
        return add_counters(state.counters for state in self.states[step])

    def count_output_rows(self, step: nodes.Step, rows_in: int) -> int:
        """Return the number of output rows of a step that has received `rows_in` rows."""
        if self.lookup_join is not None and self.lookup_join.output_stream == step.name:
            return self.lookup_join.emitted_rows
        if self.chain is not None and step.name in self.counted_steps:
            return sum(self.chain.emitted_rows[out.name] for out in step.main_outputs)
        passed = [
            columns.passed_rows[step.name]
            for columns in self.column_operators
            if step.name in columns.passed_rows
        ]
        return passed[-1] if passed else rows_in


def compile_steps(
    steps: Sequence[nodes.Step], context: OperatorContext, subtask: SubtaskSlice
) -> SubtaskOperators:
    """Build the operators of consecutive steps; without steps there is no chain."""
    compiled = SubtaskOperators(None)
    operators: list[tuple[str, Operator]] = []
    operator: Operator
    two_sided: TwoInputOperator | None = None
    for segment in cut_segments(steps):
        if segment.ends_step:
            compiled.counted_steps.add(segment.step.name)
        factory = _OperatorFactory(segment, context, subtask, compiled)
        match segment.operation:
            case nodes.Lookup() as lookup:
                assert segment.step is steps[0], "a step that looks rows up begins a task"
                if is_fallible_operation(lookup):
                    operators.append((segment.input_stream, factory.build_key_check(lookup)))
                compiled.lookup_join = factory.build_lookup(without_failures(lookup))
                compiled.chain_before_lookup = OperatorChain(operators) if operators else None
                operators = []
                continue
            case nodes.Loop() as loop:
                operator = two_sided = compiled.loop_head = factory.build_loop_head(loop)
            case nodes.WeightConversion(stored=nodes.StoredRows() as stored):
                operator = two_sided = factory.build_round_union(stored)
            case nodes.Join() as join:
                assert not operators, "a step with two inputs begins a task"
                operator = two_sided = factory.build_two_sided(join)
            case operation:
                operator = factory.build_operator(operation)
        if isinstance(operator, RoundOperator):
            operator.budget = RoundBudget(segment.step.name, segment.step.max_round_bytes)
        operators.append((segment.input_stream, operator))
    compiled.chain = OperatorChain(operators, two_sided) if operators else None
    return compiled


class _OperatorFactory:
    """Builds the operator of a segment."""

    def __init__(
        self,
        segment: Segment,
        context: OperatorContext,
        subtask_slice: SubtaskSlice,
        built: SubtaskOperators,
    ) -> None:
        """`built` takes the states and the counts of the operator."""
        self.segment, self.step, self.output_stream = segment, segment.step, segment.output_stream
        self.context = context
        self.subtask_slice = subtask_slice
        self.built = built
        self.on_failure = self._handle_failed_rows if self.step.on_error != "fail" else None

    def build_operator(self, operation: nodes.Operation | None) -> Operator:
        """Build the operator of the segment's operation, or of its column operations."""
        if operation is None or not is_fallible_operation(operation):
            return self._build_plain_operator(operation)
        # Loaded only for pipelines with expressions that may fail.
        from headrace.core.operators import checked_rows

        rows = self._check_rows(find_fallible_expressions(operation))
        if isinstance(operation, nodes.Filter | nodes.Project):
            return checked_rows.CheckedProjectionOperator(self.output_stream, operation, rows)
        plain = self._build_plain_operator(without_failures(operation))
        return checked_rows.CheckedInputOperator(plain, rows)

    def build_key_check(self, lookup: nodes.Lookup) -> Operator:
        """Build the operator that passes the rows whose key in a lookup does not fail."""
        from headrace.core.operators.checked_rows import CheckedInputOperator

        passing = ProjectionOperator(self.segment.input_stream, (), self.context.now_us)
        return CheckedInputOperator(passing, self._check_rows(find_fallible_expressions(lookup)))

    def _check_rows(self, fallible: Sequence[RowExpression]) -> CheckedRows:
        from headrace.core.operators.checked_rows import CheckedRows

        return CheckedRows(self.step.name, fallible, self.context.now_us, self.on_failure)

    def _build_plain_operator(self, operation: nodes.Operation | None) -> Operator:
        """Build the operator of an operation that does not fail for a row."""
        step, output_stream, context = self.step, self.output_stream, self.context
        match operation:
            case None:
                columns = ProjectionOperator(output_stream, self.segment.columns, context.now_us)
                self.built.column_operators.append(columns)
                return columns
            case nodes.Explode():
                return ExplodeOperator(output_stream, operation, context.now_us)
            case nodes.ChangeColumn():
                return ChangeColumnOperator(output_stream)
            case nodes.WeightConversion() if step.round_inputs:
                from headrace.core.operators.round_operators import RoundRowsOperator

                return RoundRowsOperator(output_stream)
            case nodes.WeightConversion():
                return WeightConversionOperator(output_stream)
            case nodes.RowTime():
                return RowTimeOperator(output_stream, operation)
            case nodes.Route():
                return RouteOperator(step.name, operation, context.consumed_streams)
            case nodes.Map():
                return MapOperator(
                    step.name, output_stream, operation, context.folder, self.on_failure
                )
            case nodes.Process():
                return self._build_process(operation)
            case nodes.Match():
                return self._build_match(operation)
            case (
                nodes.Aggregate()
                | nodes.Apply()
                | nodes.Top()
                | nodes.Dedup()
                | nodes.Over()
                | nodes.ChangelogConversion()
            ):
                return self._build_keyed(operation)
        raise AssertionError(operation)

    def _build_process(self, operation: nodes.Process) -> Operator:
        """Build the operator of a user's class."""
        from headrace.core.operators.process.factory import build_process

        call_context = self._build_call_context(operation.body)

        def build(keyed_context: KeyedContext) -> Operator:
            return build_process(operation, keyed_context, call_context)

        return self._build_per_clock(
            build, lambda groups, parts: PerClockOperator(operation.key, groups, parts)
        )

    def _build_match(self, operation: nodes.Match) -> Operator:
        """Build the operator of a pattern."""
        from headrace.core.operators.matches.match_operator import MatchOperator

        def build(keyed_context: KeyedContext) -> Operator:
            return MatchOperator(operation, keyed_context, self.step.name, self.on_failure)

        return self._build_per_clock(
            build,
            lambda groups, parts: PerClockOperator(operation.key, groups, parts),
        )

    def _build_per_clock(
        self,
        build: Callable[[KeyedContext], OperatorT],
        combine: Callable[[int, Sequence[tuple[range, OperatorT]]], OperatorT],
    ) -> OperatorT:
        """Build an operator for each range of key groups with the same clock, and combine them."""
        parts = [
            (each.groups, build(self._build_keyed_context(each)))
            for each in self._build_ownership().split_by_clock()
        ]
        return parts[0][1] if len(parts) == 1 else combine(self.subtask_slice.key_groups, parts)

    def _build_call_context(self, body: nodes.ProcessBody) -> UserCodeContext:
        """Build the call context of an operator of a user's class."""
        from headrace.core.operators.process.process_operator import UserCodeContext

        step = self.step
        code = UserCode(self.context.folder, body.file, body.name)
        ordered = {stream.name for stream in step.main_outputs if stream.has_row_order}
        if step.name in ordered:
            ordered.add(self.output_stream)
        return UserCodeContext(step.name, code, self.on_failure, frozenset(ordered))

    def build_lookup(self, operation: nodes.Lookup) -> LookupJoin:
        """Build the lookup of the input rows."""
        from headrace.core.operators.lookup.lookup_join import LookupJoin

        return LookupJoin(
            self.step.name,
            (self.segment.input_stream, self.output_stream),
            operation,
            self.context.now_us,
            self.on_failure,
            reads_missed=operation.miss_stream in self.context.consumed_streams,
        )

    def _build_keyed(self, operation: nodes.KeyedOperation) -> Operator:
        """Build a keyed operator."""
        if self.step.round_inputs:
            from headrace.core.operators.keyed_factory import build_round_operator

            ordered = any(stream.has_row_order for stream in self.step.main_outputs)
            return build_round_operator(operation, self.output_stream, ordered=ordered)
        # Loaded only for pipelines with keyed steps, because it loads all aggregates.
        from headrace.core.operators.keyed_factory import build_keyed_operator
        from headrace.core.plan.window_clauses import list_user_code

        made = self._build_per_clock(
            lambda keyed_context: build_keyed_operator(operation, keyed_context),
            lambda groups, parts: PerClockOperator(operation.key, groups, parts),
        )
        codes = list_user_code(operation)
        return ErrorAttributingOperator(self.step.name, codes, made) if codes else made

    def build_loop_head(self, operation: nodes.Loop) -> LoopHead | TableRoundsHead:
        """Build the operator at the head of a loop."""
        from headrace.core.operators.loop_head import LoopHead
        from headrace.core.operators.table_rounds import DeltaRoundsHead, TableRoundsHead

        context = self._build_keyed_context(self._build_ownership())
        if operation.table is not None:
            kind = TableRoundsHead if operation.table.delta is None else DeltaRoundsHead
            return kind(self.step, operation, context)
        return LoopHead(self.step, operation, context)

    def build_round_union(self, stored: nodes.StoredRows) -> TwoInputOperator:
        """Build the operator of a union that stores rows."""
        from headrace.core.operators.round_operators import RoundUnionOperator

        context = self._build_keyed_context(self._build_ownership())
        return RoundUnionOperator(self.output_stream, stored, context)

    def build_two_sided(self, operation: nodes.Join) -> TwoInputOperator:
        """Build an operator of two inputs."""
        if not is_fallible_operation(operation):
            return self._build_plain_two_sided(operation)
        from headrace.core.operators.checked_rows import CheckedTwoInputOperator

        left, right = map(self._check_rows, find_fallible_keys(operation))
        plain = self._build_plain_two_sided(without_failures(operation))
        return CheckedTwoInputOperator(plain, left, right)

    def _build_plain_two_sided(self, operation: nodes.Join) -> TwoInputOperator:
        """Build an operator of two inputs whose keys do not fail for a row."""
        from headrace.core.operators.joins.factory import build_join

        if isinstance(operation.matching, ConnectedMatch):
            return self._build_connect(operation, operation.matching)
        if isinstance(operation.matching, RuleMatch):
            return self._build_rule_match(operation, operation.matching)
        if self.step.round_inputs:
            from headrace.core.operators.joins.round_join import RoundJoin

            keyed_context = self._build_keyed_context(self._build_ownership())
            stored = [
                at for at, n in enumerate(self.step.inputs) if n not in self.step.round_inputs
            ]
            return RoundJoin(operation, keyed_context, stored)
        if isinstance(operation.matching, BroadcastMatch):
            keyed_context = self._build_keyed_context(owner := self._build_ownership())
            # The restored rows come from all subtasks: with the least clock none of them is late.
            keyed_context.state.clock_us = owner.least_clock_us
            return build_join(operation, keyed_context)
        return self._build_per_clock(
            lambda keyed_context: build_join(operation, keyed_context),
            lambda groups, parts: PerClockTwoInputOperator(operation.keys, groups, parts),
        )

    def _build_rule_match(self, operation: nodes.Join, matching: RuleMatch) -> TwoInputOperator:
        """Build the operator of patterns that come as rows."""
        from headrace.core.operators.matches.rule_operator import RuleMatchOperator

        def build(keyed_context: KeyedContext) -> TwoInputOperator:
            step = self.step.name
            return RuleMatchOperator(operation, matching, keyed_context, step, self.on_failure)

        return self._build_per_clock(
            build,
            lambda groups, parts: PerClockBroadcastOperator(operation.left.key, groups, parts),
        )

    def _build_connect(self, operation: nodes.Join, matching: ConnectedMatch) -> TwoInputOperator:
        """Build the operator of a user's class with two inputs."""
        from headrace.core.operators.process.factory import build_two_input_process

        call_context = self._build_call_context(matching.body)

        def build(keyed_context: KeyedContext) -> TwoInputOperator:
            return build_two_input_process(operation, matching, keyed_context, call_context)

        def combine(
            key_groups: int, parts: Sequence[tuple[range, TwoInputOperator]]
        ) -> TwoInputOperator:
            if matching.is_broadcast:
                return PerClockBroadcastOperator(operation.left.key, key_groups, parts)
            return PerClockTwoInputOperator(operation.keys, key_groups, parts)

        return self._build_per_clock(build, combine)

    def _build_ownership(self) -> StateOwnership:
        """Return the ownership of the step's state in this subtask."""
        step, subtask = self.step.name, self.subtask_slice
        restored = subtask.restored_states.get(step, ())
        return StateOwnership(step, subtask.index, subtask.groups, subtask.key_groups, restored)

    def _build_keyed_context(self, owner: StateOwnership) -> KeyedContext:
        step, context = self.step, self.context
        state = context.backend.open_state(owner)
        self.built.states.setdefault(step.name, []).append(state)
        ordered = any(stream.has_row_order for stream in step.main_outputs)
        return KeyedContext(
            self.output_stream,
            state,
            context.now_us,
            ordered,
            context.consumed_streams,
            owner,
            self.subtask_slice.is_restored,
            self.subtask_slice.is_aligned,
            self._open_sampler(),
            frozenset(s.name for s in step.outputs if s.has_row_order) & step.side_outputs,
        )

    def _open_sampler(self) -> RejectedRowSampler:
        """Return the samples of the step's rejected rows."""
        sampler = RejectedRowSampler(self.context.now_us)
        return self.built.rejected_rows.setdefault(self.step.name, sampler)

    def _handle_failed_rows(self, rows: list[FailedRow]) -> Iterator[Output]:
        """Count the rows on which the step failed, and emit them as dead letters if requested."""
        step, compiled = self.step, self.built
        failed = compiled.failed_rows.get(step.name, 0)
        compiled.failed_rows[step.name] = failed + len(rows)
        self._open_sampler().add_failed_rows(rows)
        before = compiled.failed_rows_before.get(step.name, 0) + failed
        if step.on_error != "skip":
            pairs = ((row.error, row.row) for row in rows)
            letters = dead_letters.from_failed_rows(step.name, pairs, self.context.now_us())
            if any(out.has_row_order for out in step.outputs if out.name == step.on_error):
                letters = add_row_order(
                    letters, number_rows(0, self.subtask_slice.index, before, len(rows))
                )
            yield step.on_error, letters
