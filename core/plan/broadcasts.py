"""The clause `broadcast` as a join whose right input is stored completely by every subtask."""

from __future__ import annotations

from headrace.core.expressions.typed import ColumnReference
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.joins import NOWHERE, JoinBuilder
from headrace.core.plan.joins_on import JoinInput
from headrace.core.plan.keyed import KeyedInput, KeyedOperationBuilder
from headrace.core.plan.matching import BroadcastMatch, JoinMatching
from headrace.core.plan.nodes import ComputedColumn, Upsert
from headrace.core.plan.windowing import to_microseconds


class BroadcastJoinBuilder(JoinBuilder):
    """The builder of a step's broadcast join."""

    clause = "broadcast"
    needs_pairs = False

    def __init__(self, step: Step, left: JoinInput, right: JoinInput, report: PlanProblems) -> None:
        assert step.broadcast is not None, "it is a step with a broadcast"
        self.broadcast = step.broadcast
        super().__init__(step, self.broadcast, left, right, report)

    @property
    def has_event_time(self) -> bool:
        """Whether output rows have an event time: that of the left row."""
        return self.left.has_event_time

    def _list_renamable_inputs(self) -> tuple[tuple[str, Text], ...]:
        return (("rules", self.broadcast.rules.from_),)

    def _check_time(self) -> None:
        untimed = next((side for side in (self.left, self.right) if not side.has_event_time), None)
        if untimed is not None and self._uses_event_time:
            message = f'rows match by event time, but "{untimed.name}" has no event time'
            at = self.step.keys_at["broadcast"].locate()
            hint = "set event_time in its source, or order: arrival"
            self.report.add(f"broadcast: {message}", at, hint)

    @property
    def _uses_event_time(self) -> bool:
        return self.broadcast.order == "event_time"

    def _build_matching(self) -> JoinMatching:
        keep = self.broadcast.keep
        ttl_us = to_microseconds(keep.ttl) if keep is not None and keep.ttl is not None else None
        return BroadcastMatch(self._key(), ttl_us, self._uses_event_time)

    def _key(self) -> tuple[ComputedColumn, ...] | None:
        """Return the key by which a row of the right input replaces another; None if none does."""
        keep, kind = self.broadcast.keep, self.right.kind
        changes = kind.key if isinstance(kind, Upsert) else None
        if keep is None or keep.key is None:
            if changes is None:
                return None
            fields = (field for field in self.right.known_columns.schema if field.name in changes)
            return tuple(
                ComputedColumn(f.name, ColumnReference(f.type, f.nullable, NOWHERE, f.name))
                for f in fields
            )
        rows = KeyedInput(self.right.known_columns, self.right.has_event_time, ())
        key = KeyedOperationBuilder(self.step, rows, self.report).build_key(keep.key)
        if changes is not None and {each.name for each in key} != {*changes}:
            message = f'"{self.right.name}" is a stream of changes by {", ".join(changes)}'
            hint = "leave out keep: key: the key of the stream is used"
            self.report.add(f"broadcast: {message}", keep.key[0].name.locate(), hint)
        return key

    def _get_late_streams(self) -> tuple[str | None, str | None]:
        late = self.broadcast.late_to
        return late and str(late), None
