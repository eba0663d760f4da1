"""The join of a step: its keys from `on`, the names of its output columns, and their types.

In the output of a join, a column of one side keeps its name, and a column of both sides is called
`left_name.column`. No column can be declared with such a name: `select` must rename it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.core.expressions.typed import (
    Column,
    Span,
    Typed,
    substituted,
)
from headrace.core.pipeline import joins as document
from headrace.core.pipeline.broadcast import Broadcast
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import UNKNOWN, Known, Report
from headrace.core.plan.joins_on import Joined, read_on
from headrace.core.plan.matching import AsOf, Changing, Matching, SameWindow, Within
from headrace.core.plan.nodes import BOUNDS, Computed, Filter, Join, Side, Upsert
from headrace.core.plan.windowing import in_us, window_of
from headrace.core.plan.windows import Ttl
from headrace.core.types import TIMESTAMP, Field, Schema

NOWHERE = Span(0, 0)
EQUAL = "wanted an equality between the inputs, such as {}.id = {}.id"


class JoinClause:
    """The builder of a step's join; `known` has its output columns."""

    clause = "join"
    needs_pairs = True

    def __init__(
        self,
        step: Step,
        written: document.Join | Broadcast,
        left: Joined,
        right: Joined,
        report: Report,
    ) -> None:
        self.step = step
        self.written = written
        self.left = left
        self.right = right
        self.report = report
        self.known = UNKNOWN

    @property
    def on(self) -> Text:
        """The join condition."""
        assert self.written.on is not None, "a broadcast without it is for a class"
        return self.written.on

    @property
    def alone(self) -> bool:
        """Whether the output has only left rows."""
        return self.written.type in ("semi", "anti")

    @property
    def timed(self) -> bool:
        """Whether output rows have an event time."""
        return self.left.timed and self.right.timed

    def build(self) -> Join | None:
        """Return the join, if it is valid."""
        if not self._named() or not (self.left.known.whole and self.right.known.whole):
            return None
        self._check_time()
        tables = self._tables()
        self.known = self._columns(tables)
        found = read_on(self.on, self.left, self.right, self.report)
        if found is None:
            return None
        if not found.pairs and self.needs_pairs:
            message = EQUAL.format(self.left.name, self.right.name)
            self.report.add(message, self.on.locate(), "rows are joined by equal values")
            return None
        outside = self._renamed(tables)
        only = None if found.rest is None else substituted(found.rest, outside)
        return Join(
            left=self._side(self.left, [left for left, _ in found.pairs], tables),
            right=self._side(self.right, [right for _, right in found.pairs], tables),
            type=self.written.type,
            matching=self._matching(),
            only=None if only is None else Filter(only, self.on.shown),
            text=self.on.shown,
            late_to=self._late_to(),
            timed=self.timed,
        )

    def _named(self) -> bool:
        """Whether both inputs have distinct names that can be used before a dot."""
        sound = True
        for (key, of), side in zip(self._inputs(), (self.right, self.left), strict=False):
            if not side.name.isidentifier():
                hint = f"give it another name: {key}: {{from: {of}, as: {key}_rows}}"
                message = f'{self.clause}.{key}: "{side.name}" cannot be used before a dot'
                self.report.add(message, of.locate(), hint)
                sound = False
        if sound and self.left.name == self.right.name:
            key, of = self._inputs()[0]
            message = f'{self.clause}: both inputs are called "{of}"'
            hint = f"give one another name: {key}: {{from: {of}, as: other}}"
            self.report.add(message, of.locate(), hint)
            sound = False
        return sound

    def _inputs(self) -> tuple[tuple[str, Text], ...]:
        """Return the inputs that can be renamed, with their keys, the right one first."""
        assert isinstance(self.written, document.Join), "subclasses override this"
        return ("right", self.written.right.from_), ("left", self.written.left.from_)

    def _check_time(self) -> None:
        """Check that both sides have an event time, if the join goes by event time."""
        assert isinstance(self.written, document.Join), "subclasses override this"
        if self.timed:
            return
        given = "as_of" if self.written.as_of else "within" if self.written.within else ""
        given = given or ("window" if self.step.window else "")
        if not given and self.written.ttl and self.written.ttl.time == "event":
            given = "ttl"
        if given:
            key, untimed = ("right", self.right) if self.left.timed else ("left", self.left)
            at = self.step.keys_at["window" if given == "window" else "join"]
            message = f'{given} goes by event time, but the {key} input "{untimed.name}" has none'
            other = ", or ttl: {after: ..., time: processing}" if given == "ttl" else ""
            self.report.add(f"join: {message}", at.locate(), f"set event_time in its source{other}")

    def _tables(self) -> Mapping[str, Mapping[str, str]]:
        """Return the names of each input's columns in the output of the join."""
        mine, theirs = self.left.known.schema.names, self.right.known.schema.names
        if self.alone:
            return {
                self.left.name: {column: column for column in mine},
                self.right.name: {column: f"{self.right.name}.{column}" for column in theirs},
            }
        return {
            side.name: {
                column: f"{side.name}.{column}" if column in other else column for column in names
            }
            for side, names, other in ((self.left, mine, theirs), (self.right, theirs, mine))
        }

    def _columns(self, tables: Mapping[str, Mapping[str, str]]) -> Known:
        """Return the output columns: both sides, nullable if padded, and the window's bounds."""
        kind = self.written.type
        sides = [(self.left, kind in ("right", "full"))]
        if not self.alone:
            sides.append((self.right, kind in ("left", "full")))
        fields = [
            Field(tables[side.name][f.name], f.type, f.nullable or padded)
            for side, padded in sides
            for f in side.known.schema
        ]
        window = self.step.window
        if window is not None and window_of(window).bounded:
            taken = next((f.name for f in fields if f.name in BOUNDS), None)
            if taken:
                message = f'"{taken}" is a column of the window'
                at = self.step.keys_at["window"].locate()
                self.report.add(message, at, "rename the input's column in an earlier step")
            fields = [f for f in fields if f.name not in BOUNDS]
            fields += [Field(name, TIMESTAMP, nullable=False) for name in BOUNDS]
        # A semi or anti join emits no right columns, but the right side's name is still known.
        shown = {side.name: tables[side.name] for side, _ in sides}
        shown.setdefault(self.right.name, {})
        return Known(Schema(tuple(fields)), tables=shown)

    def _side(
        self, side: Joined, keys: Iterable[Typed], tables: Mapping[str, Mapping[str, str]]
    ) -> Side:
        own: dict[str, Typed] = {
            f"{side.name}.{f.name}": Column(f.type, f.nullable, NOWHERE, f.name)
            for f in side.known.schema
        }
        own_names = side.known.schema.names
        names: list[str] = []
        key = []
        for at, typed in enumerate(keys):
            value = substituted(typed, own)
            name = value.name if isinstance(value, Column) else f"key{at + 1}"
            while name in names or (not isinstance(value, Column) and name in own_names):
                name += "_"
            names.append(name)
            text = self.on.shown[typed.span.start : typed.span.end]
            key.append(Computed(name, value, "" if isinstance(value, Column) else text))
        kept = tuple(
            Computed(tables[side.name][f.name], own[f"{side.name}.{f.name}"])
            for f in side.known.schema
        )
        return Side(side.name, tuple(key), kept)

    def _renamed(self, tables: Mapping[str, Mapping[str, str]]) -> Mapping[str, Typed]:
        """Return the columns of `on` as columns of the join's output."""
        return {
            f"{side.name}.{f.name}": Column(f.type, f.nullable, NOWHERE, tables[side.name][f.name])
            for side in (self.left, self.right)
            for f in side.known.schema
        }

    def _matching(self) -> Matching:
        written = self.written
        assert isinstance(written, document.Join), "subclasses override this"
        if self.step.window is not None:
            return SameWindow(window_of(self.step.window))
        ttl = None
        if written.ttl is not None:
            ttl = Ttl(in_us(written.ttl.after), written.ttl.time == "processing")
        if written.as_of:
            return AsOf(ttl.after_us if ttl else None)
        if written.within is not None:
            least, most = written.within
            return Within(in_us(least), in_us(most))
        if isinstance(self.left.kind, Upsert) and isinstance(self.right.kind, Upsert):
            return Changing(ttl, (self.left.kind.key, self.right.kind.key))
        if ttl is not None:
            return Within(-ttl.after_us, ttl.after_us, ttl.processing)
        return Within()

    def _late_to(self) -> tuple[str | None, str | None]:
        assert isinstance(self.written, document.Join), "subclasses override this"
        late = self.written.late_to
        if late is None:
            return None, None
        return late.left and str(late.left), late.right and str(late.right)


def unresolved(known: Known, step: Step, report: Report) -> None:
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
