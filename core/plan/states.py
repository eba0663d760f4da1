"""The states of a step, for `explain` and for compatibility, and the subtasks that own them.

The operators open these states; a test compares their names and shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace.core.expressions.typed import Column, walk
from headrace.core.keygroups import group_of_no_key, owned
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan.layout import keyed_operation, two_sided
from headrace.core.plan.matching import (
    AsOf,
    Changing,
    Connected,
    Everywhere,
    Matching,
    SameWindow,
)
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    Body,
    Dedup,
    Join,
    Keyed,
    PlanPart,
    Process,
    Top,
)
from headrace.core.plan.windows import Count, Session, Window

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateCall
    from headrace.core.types import Type

Shape = Literal["runs", "table", "entries"]

HELD, HELD_RIGHT, DUE, WAITS = "held", "held_right", "due", "waits"
"""The names of the states in which rows and timers of a user-defined class wait."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of a step: rows by time (runs), one row per key (a table), or rows without a key."""

    name: str
    shape: Shape
    columns: tuple[tuple[str, str], ...]
    """The stored columns besides the key and the time, each with its type."""
    by_time: bool = True
    """Whether the times of runs are event times or timestamps, and not only an order."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The state of a step: its key, its states, and the key groups that each subtask owns."""

    key: tuple[str, ...]
    states: tuple[State, ...]
    owners: tuple[range, ...]

    @property
    def only(self) -> int:
        """The subtask that owns all of the state if there is no key."""
        group = group_of_no_key(self.owners[-1].stop)
        return next(at for at, groups in enumerate(self.owners) if group in groups)


def kept_by(part: PlanPart, key_groups: int) -> Kept | None:
    """Return the state of a part, if it is a step with state."""
    keyed, join = keyed_operation(part), two_sided(part)
    if join is not None:
        states = tuple(_of_join(join))
        by = () if isinstance(join.matching, Everywhere) else join.left.key
    else:
        states, by = () if keyed is None else tuple(_states(keyed)), keyed.key if keyed else ()
    if not states:
        return None
    key = tuple(column.name for column in by)
    owners = (owned(subtask, part.parallelism, key_groups) for subtask in range(part.parallelism))
    return Kept(key, states, tuple(owners))


def _of_join(join: Join) -> Iterator[State]:
    """Yield the states of the rows of both sides that may still match others."""
    if isinstance(join.matching, Everywhere):
        of_left = ((c.name, str(c.value.type)) for c in join.left.columns)
        if join.matching.in_time:
            yield State("waiting", "entries", tuple(of_left))
        yield State(
            "rules", "entries", tuple((c.name, str(c.value.type)) for c in join.right.columns)
        )
        return
    if isinstance(join.matching, Connected):
        yield from of_body(join.matching.body)
        for name in (HELD, HELD_RIGHT) if join.matching.body.in_time else ():
            whole = name == HELD_RIGHT and join.matching.everywhere
            shape: Shape = "entries" if whole else "runs"
            yield State(name, shape, (("rows as they came", "struct"),))
        return
    if isinstance(join.matching, Changing):
        yield State("keys", "table", (("left rows", "array"), ("right rows", "array")))
        return
    went_out = ("shown_",) if _goes_out_again(join.matching) else ()
    for before in ("", *went_out):
        for name, side in (("left", join.left), ("right", join.right)):
            columns = tuple((c.name, str(c.value.type)) for c in side.columns)
            yield State(f"{before}{name}", "runs", columns)
    if isinstance(join.matching, AsOf):
        held = tuple((c.name, str(c.value.type)) for c in join.right.columns)
        yield State("versions", "table", held)


def _goes_out_again(matching: Matching) -> bool:
    """Whether emitted rows are stored, because late rows may extend their sessions."""
    window = matching.window if isinstance(matching, SameWindow) else None
    return window is not None and isinstance(window.shape, Session) and window.lateness_us > 0


def of_body(body: Body) -> Iterator[State]:
    """Yield the states of a user-defined class, and those of its timers."""
    for name, said in body.states:
        shape: Shape = "entries" if said.shared else "table"
        yield State(name, shape, ((str(said), str(said.types[-1])),))
    clocks = {said.processing for _, said in body.timers}
    for name, by_clock in ((DUE, False), (WAITS, True)):
        if by_clock in clocks:
            yield State(name, "runs", (("timer", "string"),))


def _states(keyed: Keyed) -> Iterator[State]:
    if isinstance(keyed, Process):
        yield from of_body(keyed.body)
        if keyed.body.in_time:
            yield State(HELD, "runs", (("rows as they came", "struct"),))
        return
    columns = _columns(keyed)
    match keyed:
        case Dedup():
            if keyed.in_time:
                yield State("waiting", "runs", (("rows as they came", "struct"),))
            if keyed.keep == "first":
                yield State("keys", "table", columns)
        case Aggregate(window=None) | Top(window=None):
            yield State("keys", "table", columns)
            if keyed.changes is not None:
                yield State("rows", "runs", (("rows as they are now", "struct"),), by_time=False)
        case Aggregate(window=window) | Apply(window=window) | Top(window=window) if (
            window is not None
        ):
            match window.shape:
                case Session():
                    yield State("open", "runs", columns)
                    if window.fires_again:
                        yield State("shown", "runs", columns)
                case Count():
                    yield State("counts", "table", (("rows", "bigint"),))
                    yield State("panes", "table", columns)
                case _:
                    yield State("windows", "runs", (*columns, *_of_trigger(window)))
                    if window.accumulate and window.trigger and window.trigger.every_us:
                        yield State("changed", "runs", ())


def _of_trigger(window: Window) -> Iterator[tuple[str, str]]:
    """Yield the columns of a user-defined trigger's state."""
    trigger = window.trigger
    for field in (trigger.state if trigger else None) or ():
        yield f"{trigger.code if trigger else ''}.{field.name}", str(field.type)


def _columns(keyed: Keyed) -> tuple[tuple[str, str], ...]:
    match keyed:
        case Aggregate(changes=tuple()):
            return (("row that was put out", "struct"),)
        case Aggregate(window=window) if window is not None and window.evict is not None:
            return tuple(_raw(keyed))
        case Apply():
            return tuple(_raw(keyed))
        case Aggregate():
            return tuple(_partial(keyed))
        case Top():
            return (("first rows", "array"),)
    return (("time of the last row", "timestamp"),)


def _partial(keyed: Aggregate) -> Iterator[tuple[str, str]]:
    """Yield the columns of partial results: an aggregate's text and a component of its state."""
    from headrace.core.aggregates import distinct_calls

    for call in distinct_calls(column.expression for column in keyed.columns):
        state: dict[str, Type] = call.state(ORDER_TYPE)
        yield from ((name.removeprefix("__"), str(type)) for name, type in state.items())


def _raw(keyed: Aggregate | Apply) -> Iterator[tuple[str, str]]:
    """Yield the columns of unchanged rows: it is not known yet which rows will be used."""
    yield from ((name, str(type)) for name, type in read_of_rows(keyed).items())


def read_of_rows(keyed: Aggregate | Apply) -> dict[str, Type]:
    """Return the columns that aggregates or user code read, with their types."""
    from headrace.core.aggregates import distinct_calls

    seen = keyed.window.handed if keyed.window else {}
    if isinstance(keyed, Apply):
        return {**{field.name: field.type for field in keyed.of}, **seen}
    calls = distinct_calls(column.expression for column in keyed.columns)
    read = (each.typed for call in calls for each in (*call.inputs, call.condition) if each)
    columns = {
        node.name: node.type for typed in read for node in walk(typed) if isinstance(node, Column)
    }
    return {**columns, **seen}


def call_state(call: AggregateCall) -> dict[str, object]:
    """Return the types of a call's arguments, and the columns of its state."""
    parts = call.state(ORDER_TYPE)
    return {
        "of": [str(each.typed.type) for each in call.read],
        "keeps": [[name.removeprefix(f"{call.name}."), str(type)] for name, type in parts.items()],
    }


def ranges(owners: tuple[range, ...]) -> str:
    """Return the key groups of each subtask, in words.

    >>> ranges((range(0, 64), range(64, 128)))
    '0-63 in subtask 0, 64-127 in subtask 1'
    """
    shown = [f"{_range(groups)} in subtask {at}" for at, groups in enumerate(owners)]
    return ", ".join(shown if len(shown) <= 8 else (*shown[:3], "...", shown[-1]))


def _range(groups: range) -> str:
    return f"{groups[0]}-{groups[-1]}" if len(groups) > 1 else str(groups[0])
