"""The join of a step: its keys from `on`, the names of its output columns, and their types.

In the output of a join, a column of one side keeps its name, and a column of both sides is called
`left_name.column`. No column can be declared with such a name: `select` must rename it. `broadcast`
is a join whose right input is stored completely by every subtask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.core.expressions.typed import (
    NOWHERE,
    ColumnReference,
    TypedExpression,
    reference_field,
    substitute_columns,
)
from headrace.core.pipeline.clauses import joins as document
from headrace.core.pipeline.clauses.broadcast import Broadcast
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import UNKNOWN_COLUMNS, KnownColumns, PlanProblems
from headrace.core.plan.join_conditions import JoinCondition, JoinInput, split_condition
from headrace.core.plan.join_kinds import joins_by_keys
from headrace.core.plan.keyed_operations import KeyedInput, KeyedOperationBuilder
from headrace.core.plan.nodes import (
    WINDOW_BOUNDS,
    Append,
    ComputedColumn,
    Filter,
    Join,
    JoinSide,
    Upsert,
)
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    IntervalMatch,
    JoinMatching,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.plan.window_clauses import build_window, to_microseconds
from headrace.core.types.data_types import TIMESTAMP, Field, Schema

EQUALITY_WANTED = "wanted an equality between the inputs, such as {}.id = {}.id"


class JoinBuilder:
    """The builder of a step's join; `known` has its output columns."""

    clause = "join"
    needs_pairs = True

    def __init__(
        self,
        step: Step,
        written: document.Join | Broadcast,
        left: JoinInput,
        right: JoinInput,
        report: PlanProblems,
    ) -> None:
        self.step = step
        self.clause_keys = written
        self.left = left
        self.right = right
        self.report = report
        self.known_columns = UNKNOWN_COLUMNS

    @property
    def condition_text(self) -> Text:
        """The join condition."""
        assert self.clause_keys.on is not None, "a broadcast without it is for a class"
        return self.clause_keys.on

    @property
    def is_left_only(self) -> bool:
        """Whether the output has only left rows."""
        return self.clause_keys.type in ("semi", "anti")

    @property
    def has_event_time(self) -> bool:
        """Whether output rows have an event time."""
        return self.left.has_event_time and self.right.has_event_time

    def build(self) -> Join | None:
        """Return the join, if it is valid."""
        if not self._check_names() or not (
            self.left.known_columns.is_complete and self.right.known_columns.is_complete
        ):
            return None
        self._check_time()
        tables = self._name_columns()
        self.known_columns = self._build_columns(tables)
        split = split_condition(self.condition_text, self.left, self.right, self.report)
        if split is None:
            return None
        if not split.equalities and self.needs_pairs:
            message = EQUALITY_WANTED.format(self.left.name, self.right.name)
            self.report.add(
                message, self.condition_text.locate(), "rows are joined by equal values"
            )
            return None
        outside = self._map_output_columns(tables)
        only = None if split.rest is None else substitute_columns(split.rest, outside)
        return Join(
            left=self._build_side(self.left, [left for left, _ in split.equalities], tables),
            right=self._build_side(self.right, [right for _, right in split.equalities], tables),
            type=self.clause_keys.type,
            matching=self._build_matching(split),
            residual_filter=None if only is None else Filter(only, self.condition_text.printable),
            text=self.condition_text.printable,
            late_to=self._get_late_streams(),
            has_event_time=self.has_event_time,
        )

    def _check_names(self) -> bool:
        """Whether both inputs have distinct names that can be used before a dot."""
        sound = True
        for (key, of), side in zip(
            self._list_renamable_inputs(), (self.right, self.left), strict=False
        ):
            if not side.name.isidentifier():
                hint = f"give it another name: {key}: {{from: {of}, as: {key}_rows}}"
                message = f'{self.clause}.{key}: "{side.name}" cannot be used before a dot'
                self.report.add(message, of.locate(), hint)
                sound = False
        if sound and self.left.name == self.right.name:
            key, of = self._list_renamable_inputs()[0]
            message = f'{self.clause}: both inputs are called "{of}"'
            hint = f"give one another name: {key}: {{from: {of}, as: other}}"
            self.report.add(message, of.locate(), hint)
            sound = False
        return sound

    def _list_renamable_inputs(self) -> tuple[tuple[str, Text], ...]:
        """Return the inputs that can be renamed, with their keys, the right one first."""
        assert isinstance(self.clause_keys, document.Join), "subclasses override this"
        return ("right", self.clause_keys.right.from_), ("left", self.clause_keys.left.from_)

    def _check_time(self) -> None:
        """Check that both sides have an event time, if the join goes by event time."""
        assert isinstance(self.clause_keys, document.Join), "subclasses override this"
        if self.has_event_time:
            return
        clause = "as_of" if self.clause_keys.as_of else "within" if self.clause_keys.within else ""
        clause = clause or ("window" if self.step.window else "")
        if not clause and self.clause_keys.ttl and self.clause_keys.ttl.time == "event":
            clause = "ttl"
        if clause:
            key, untimed = (
                ("right", self.right) if self.left.has_event_time else ("left", self.left)
            )
            at = self.step.keys_at["window" if clause == "window" else "join"]
            message = f'{clause} goes by event time, but the {key} input "{untimed.name}" has none'
            other = ", or ttl: {after: ..., time: processing}" if clause == "ttl" else ""
            self.report.add(f"join: {message}", at.locate(), f"set event_time in its source{other}")

    def _name_columns(self) -> Mapping[str, Mapping[str, str]]:
        """Return the names of each input's columns in the output of the join."""
        left_names, right_names = (
            self.left.known_columns.schema.names,
            self.right.known_columns.schema.names,
        )
        if self.is_left_only:
            return {
                self.left.name: {column: column for column in left_names},
                self.right.name: {column: f"{self.right.name}.{column}" for column in right_names},
            }
        return {
            side.name: {
                column: f"{side.name}.{column}" if column in other else column for column in names
            }
            for side, names, other in (
                (self.left, left_names, right_names),
                (self.right, right_names, left_names),
            )
        }

    def _build_columns(self, tables: Mapping[str, Mapping[str, str]]) -> KnownColumns:
        """Return the output columns: both sides, nullable if padded, and the window's bounds."""
        kind = self.clause_keys.type
        sides = [(self.left, kind in ("right", "full"))]
        if not self.is_left_only:
            sides.append((self.right, kind in ("left", "full")))
        fields = [
            Field(tables[side.name][f.name], f.type, f.nullable or padded)
            for side, padded in sides
            for f in side.known_columns.schema
        ]
        window = self.step.window
        if window is not None and build_window(window).has_bounds:
            repeated_name = next((f.name for f in fields if f.name in WINDOW_BOUNDS), None)
            if repeated_name:
                message = f'"{repeated_name}" is a column of the window'
                at = self.step.keys_at["window"].locate()
                self.report.add(message, at, "rename the input's column in an earlier step")
            fields = [f for f in fields if f.name not in WINDOW_BOUNDS]
            fields += [Field(name, TIMESTAMP, nullable=False) for name in WINDOW_BOUNDS]
        # A semi or anti join emits no right columns, but the right side's name is still known.
        shown = {side.name: tables[side.name] for side, _ in sides}
        shown.setdefault(self.right.name, {})
        return KnownColumns(Schema(tuple(fields)), tables=shown)

    def _build_side(
        self,
        side: JoinInput,
        keys: Iterable[TypedExpression],
        tables: Mapping[str, Mapping[str, str]],
    ) -> JoinSide:
        own: dict[str, TypedExpression] = {
            f"{side.name}.{f.name}": reference_field(f) for f in side.known_columns.schema
        }
        own_names = side.known_columns.schema.names
        names: list[str] = []
        key = []
        for at, typed in enumerate(keys):
            value = substitute_columns(typed, own)
            name = value.name if isinstance(value, ColumnReference) else f"key{at + 1}"
            while name in names or (not isinstance(value, ColumnReference) and name in own_names):
                name += "_"
            names.append(name)
            text = self.condition_text.printable[typed.span.start : typed.span.end]
            key.append(
                ComputedColumn(name, value, "" if isinstance(value, ColumnReference) else text)
            )
        columns = tuple(
            ComputedColumn(tables[side.name][f.name], own[f"{side.name}.{f.name}"])
            for f in side.known_columns.schema
        )
        return JoinSide(side.name, tuple(key), columns)

    def _map_output_columns(
        self, tables: Mapping[str, Mapping[str, str]]
    ) -> Mapping[str, TypedExpression]:
        """Return the columns of `on` as columns of the join's output."""
        return {
            f"{side.name}.{f.name}": ColumnReference(
                f.type, f.nullable, NOWHERE, tables[side.name][f.name]
            )
            for side in (self.left, self.right)
            for f in side.known_columns.schema
        }

    def _build_matching(self, condition: JoinCondition) -> JoinMatching:
        written = self.clause_keys
        assert isinstance(written, document.Join), "subclasses override this"
        if self.step.window is not None:
            return WindowMatch(build_window(self.step.window))
        ttl = None
        if written.ttl is not None:
            ttl = Ttl(to_microseconds(written.ttl.after), written.ttl.time == "processing")
        if written.as_of:
            return AsOfMatch(ttl.after_us if ttl else None)
        if written.within is not None:
            least, most = written.within
            return IntervalMatch(to_microseconds(least), to_microseconds(most))
        left, right = self.left.kind, self.right.kind
        if isinstance(left, Upsert) and isinstance(right, Upsert):
            keys = self._list_keys(condition)
            if joins_by_keys(keys, (left, right)):
                return ChangelogMatch(ttl, (left.key, right.key))
        is_append = isinstance(left, Append) and isinstance(right, Append)
        if not is_append or (ttl is None and written.emit == "at_once"):
            return TableMatch(self._get_table_ttl(ttl))
        if ttl is not None:
            return IntervalMatch(-ttl.after_us, ttl.after_us, ttl.uses_processing_time)
        return IntervalMatch()

    def _get_table_ttl(self, ttl: Ttl | None) -> int | None:
        """Return the ttl of a join of rows that may be removed; report one of the wall clock."""
        if ttl is None:
            return None
        if ttl.uses_processing_time:
            message = (
                "join: ttl by the wall clock goes with changes only if both inputs are upserts, "
                "joined by columns of their keys"
            )
            at = self.step.keys_at["join"].locate()
            self.report.add(message, at, "leave out time: processing")
        return ttl.after_us

    def _list_keys(self, condition: JoinCondition) -> tuple[list[TypedExpression], ...]:
        """Return the values by which each input is joined, over its own columns."""
        keys = []
        for at, side in enumerate((self.left, self.right)):
            own: dict[str, TypedExpression] = {
                f"{side.name}.{f.name}": reference_field(f) for f in side.known_columns.schema
            }
            keys.append([substitute_columns(pair[at], own) for pair in condition.equalities])
        return tuple(keys)

    def _get_late_streams(self) -> tuple[str | None, str | None]:
        assert isinstance(self.clause_keys, document.Join), "subclasses override this"
        late = self.clause_keys.late_to
        if late is None:
            return None, None
        return late.left and str(late.left), late.right and str(late.right)


def report_ambiguous_columns(known: KnownColumns, step: Step, report: PlanProblems) -> None:
    """Report columns of both inputs that `select` does not rename."""
    both = [
        (table, column)
        for table, columns_ in known.tables.items()
        for column, name in columns_.items()
        if name == f"{table}.{column}" and name in known.schema
    ]
    if both:
        names = list(dict.fromkeys(column for _, column in both))
        shown = ", ".join(f'"{name}"' for name in names)
        table = both[0][0]
        verb = "is" if len(names) == 1 else "are"
        clause = "join" if step.join is not None else "broadcast"
        message = f"{clause}: {shown} {verb} in both inputs"
        hint = f"choose one in select: {{{names[0]}: {table}.{names[0]}, ...}}"
        report.add(message, step.keys_at[clause].locate(), hint)


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

    def _build_matching(self, condition: JoinCondition) -> JoinMatching:
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
            return tuple(ComputedColumn(f.name, reference_field(f)) for f in fields)
        known = replace(self.right.known_columns, has_row_place=False)
        rows = KeyedInput(known, self.right.has_event_time, ())
        key = KeyedOperationBuilder(self.step, rows, self.report).build_key(keep.key)
        if changes is not None and {each.name for each in key} != {*changes}:
            message = f'"{self.right.name}" is a stream of changes by {", ".join(changes)}'
            hint = "leave out keep: key: the key of the stream is used"
            self.report.add(f"broadcast: {message}", keep.key[0].name.locate(), hint)
        return key

    def _get_late_streams(self) -> tuple[str | None, str | None]:
        late = self.broadcast.late_to
        return late and str(late), None
