"""The generated cell class does what the plain model does, errors included."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from typing import Any, TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.core.operators.process.cell_class import CellFactory
from headrace.core.operators.process.timers import TimerHeap
from headrace.core.process.declarations import Declared, Kind, parse_declaration
from tests.support.plain_cells import EPOCH, MICROSECOND, PlainCell

TTL = 10 * MICROSECOND


def declare(kind: Kind, *types: str, **rest: Any) -> Declared:
    return parse_declaration(kind, types, **rest)


STATES = {
    "total": declare(Kind.VALUE, "bigint", default=0),
    "small": declare(Kind.VALUE, "tinyint"),
    "name": declare(Kind.VALUE, "string"),
    "tags": declare(Kind.VALUE, "array<bigint>", default=[1]),
    "no_tags": declare(Kind.VALUE, "array<bigint>"),
    "recent": declare(Kind.VALUE, "bigint", ttl=TTL, default=3),
    "recent_tags": declare(Kind.VALUE, "array<bigint>", ttl=TTL, default=[7]),
    "clocked": declare(Kind.VALUE, "string", ttl=TTL, time="processing"),
    "items": declare(Kind.LIST, "bigint"),
    "nested": declare(Kind.LIST, "array<bigint>"),
    "recent_items": declare(Kind.LIST, "bigint", ttl=TTL),
    "parts": declare(Kind.MAP, "string", "bigint"),
    "nested_parts": declare(Kind.MAP, "bigint", "array<bigint>"),
    "recent_parts": declare(Kind.MAP, "string", "bigint", ttl=TTL, time="processing"),
    "due": declare(Kind.TIMER),
    "later": declare(Kind.TIMER),
    "waits": declare(Kind.TIMER, time="processing"),
}
LISTS = [name for name, each in STATES.items() if each.kind is Kind.LIST]
MAPS = [name for name, each in STATES.items() if each.kind is Kind.MAP]
NESTED_VALUES = ["tags", "no_tags", "recent_tags"]


class Clocks:
    """Two manual clocks."""

    def __init__(self) -> None:
        self.event_us = self.wall_us = 0

    def get_event_us(self) -> int:
        return self.event_us

    def now_us(self) -> int:
        return self.wall_us


class GeneratedCell:
    """A generated cell, with the interface of the model."""

    def __init__(self, clocks: Clocks) -> None:
        timers = {name: each for name, each in STATES.items() if each.kind is Kind.TIMER}
        self.heaps = {
            by_wall: TimerHeap(
                [name for name, each in timers.items() if each.processing is by_wall]
            )
            for by_wall in (False, True)
        }
        self.cells = CellFactory(STATES, clocks, self.heaps[False], self.heaps[True])
        self.cell = self.cells.create("a")

    def read(self, name: str) -> Any:
        found = getattr(self.cell, name)
        match STATES[name].kind:
            case Kind.LIST:
                return list(found)
            case Kind.MAP:
                return dict(found)
        return found

    def write(self, name: str, value: Any) -> None:
        setattr(self.cell, name, value)

    def append(self, name: str, value: Any) -> None:
        getattr(self.cell, name).append(value)

    def insert(self, name: str, at: int, value: Any) -> None:
        getattr(self.cell, name).insert(at, value)

    def put(self, name: str, at: Any, value: Any) -> None:
        getattr(self.cell, name)[at] = value

    def delete(self, name: str, at: Any) -> None:
        del getattr(self.cell, name)[at]

    def save(self) -> Any:
        return self.cells.save(self.cell)

    def restore(self, saved: Any) -> None:
        self.cells.restore(self.cell, saved)

    def fire(self, before_us: int, *, by_wall: bool) -> list[tuple[int, str]]:
        return [(at_us, name) for at_us, _, name in self.heaps[by_wall].pop_due(before_us)]


AnyCell: TypeAlias = "PlainCell | GeneratedCell"
Operation: TypeAlias = tuple[Any, ...]

integers = st.integers(-3, 200) | st.just(1 << 70)
values = (
    st.none()
    | integers
    | st.booleans()
    | st.sampled_from([1.0, 1.5])
    | st.sampled_from(["", "x", "7"])
    | st.just(b"x")
    | st.lists(integers | st.sampled_from(["x"]), max_size=2)
    | st.dictionaries(st.sampled_from(["x", "y"]) | integers, integers, max_size=2)
    | st.lists(st.lists(integers, max_size=2), max_size=2)
    | st.integers(0, 60).map(lambda us: EPOCH + timedelta(microseconds=us))
)
places = st.integers(-2, 2) | st.sampled_from(["x", "y"])
ticks = st.integers(0, 12)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("read"), st.sampled_from([*STATES])),
    st.tuples(st.just("write"), st.sampled_from([*STATES]), values),
    st.tuples(st.just("append"), st.sampled_from(LISTS), values),
    st.tuples(st.just("insert"), st.sampled_from(LISTS), st.integers(-2, 2), values),
    st.tuples(st.just("put"), st.sampled_from(LISTS), st.integers(-2, 2), values),
    st.tuples(st.just("put"), st.sampled_from(MAPS), places, values),
    st.tuples(st.just("delete"), st.sampled_from(LISTS), st.integers(-2, 2)),
    st.tuples(st.just("delete"), st.sampled_from(MAPS), places),
    st.tuples(st.just("change value"), st.sampled_from(NESTED_VALUES)),
    st.tuples(st.just("change elements"), st.sampled_from(["nested", "nested_parts"])),
    st.tuples(st.just("save")),
    st.tuples(st.just("restore")),
    st.tuples(st.just("tick"), ticks, ticks),
)


class Driver:
    """Applies operations to a cell; time and timers are its own."""

    def __init__(self, build: Callable[[Clocks], AnyCell]) -> None:
        self.clocks = Clocks()
        self.cell = build(self.clocks)
        self.saved: Any = None

    def apply(self, name: str, *arguments: Any) -> str:
        """Apply an operation; return its result, or its error, as a text: 1 is not True."""
        try:
            return repr(self._apply(name, *deepcopy(arguments)))
        except Exception as error:
            return f"{type(error)}: {error}"

    def _apply(self, name: str, *arguments: Any) -> Any:
        cell, saved = self.cell, self.saved
        match name:
            case "save":
                self.saved = cell.save()
            case "restore":
                self.saved = None  # its values belong to the cell then
                if saved is not None:
                    cell.restore(saved)
            case "tick":
                return self._advance(*arguments)
            case "change value":
                cell.read(*arguments).append(5)
            case "change elements":
                found = cell.read(*arguments)
                for element in found.values() if isinstance(found, dict) else found:
                    element.append(6)
            case _:
                return getattr(cell, name)(*arguments)

    def _advance(self, event_us: int, wall_us: int) -> Any:
        """Advance both clocks, and fire timers; no call can be undone across that."""
        self.saved = None
        self.clocks.event_us += event_us
        self.clocks.wall_us += wall_us
        event = self.cell.fire(self.clocks.event_us, by_wall=False)
        return [*event, *self.cell.fire(self.clocks.wall_us, by_wall=True)]

    def read_all(self) -> object:
        """Return all states."""
        return {name: self.apply("read", name) for name in STATES}


@settings(max_examples=300)
@given(st.lists(operations, max_size=30))
@example([("save",), ("write", "due", EPOCH + TTL), ("restore",), ("tick", 12, 12)])
@example([("write", "recent_tags", [2]), ("tick", 11, 0), ("change value", "recent_tags")])
@example([("write", "recent", 5), ("write", "recent", None)])
@example([("write", "due", EPOCH + 20 * MICROSECOND), ("write", "due", EPOCH), ("tick", 12, 0)])
@example([("write", "total", 1), ("save",), ("write", "total", 2), ("restore",)])
@example([("write", "parts", [0]), ("write", "recent_parts", [0])])
@example([("put", "parts", 0, 1.5), ("put", "recent_parts", 0, 1.5)])
def test_the_generated_class_does_what_the_plain_one_does(performed: list[Operation]) -> None:
    generated = Driver(GeneratedCell)
    plain = Driver(lambda clocks: PlainCell(STATES, clocks.get_event_us, clocks.now_us))
    for operation in performed:
        assert generated.apply(*operation) == plain.apply(*operation), operation
    assert generated.read_all() == plain.read_all()
    for operation in (("restore",), ("tick", 100, 100)):
        assert generated.apply(*operation) == plain.apply(*operation)
        assert generated.read_all() == plain.read_all()


def test_a_cell_has_no_other_states() -> None:
    cell = GeneratedCell(Clocks()).cell
    for name in ("totl", "_x"):
        try:
            setattr(cell, name, 1)
        except AttributeError:
            continue
        raise AssertionError(f"{name} was set")
