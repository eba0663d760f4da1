"""State and output of classes are values: changing one never changes another."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from headrace import Out, Process, Trial, list_of, map_of, value
from headrace.core.api.user_code import UserCodeError
from headrace.core.operators.process.call_context import CallContext
from headrace.core.operators.process.cell_class import CellFactory
from headrace.core.operators.process.timers import TimerHeap
from headrace.core.process.declarations import Kind, parse_declaration

ROWS = {"k": "string", "v": "bigint", "at": "timestamp"}
RETURNS = {"k": "string", "items": "array<bigint>"}
START = datetime(2026, 1, 1, tzinfo=UTC)


def tried(kind: type[Process], keys: str = "aaa", **columns: str) -> list[dict[str, object]]:
    """Return the output for rows of these keys, with v=1, 2, ... and a second between them."""
    trial = Trial(kind, key="k", rows=ROWS, event_time="at", returns=columns or RETURNS)
    for at, key in enumerate(keys):
        trial.row(k=key, v=at + 1, at=START + timedelta(seconds=at))
    trial.end()
    return trial.out


class Growing(Process):
    items = list_of("bigint")

    def on_row(self, row, state, out):  # type: ignore[no-untyped-def]
        state.items.append(row.v)
        out(k=row.k, items=state.items)


class GrowingFor(Growing):
    items = list_of("bigint", ttl="1h")


class Parts(Process):
    parts = map_of("string", "bigint")

    def on_row(self, row, state, out):  # type: ignore[no-untyped-def]
        state.parts["n"] = row.v
        out(k=row.k, items=state.parts)


class Defaulted(Process):
    items = value("array<bigint>", default=[])

    def on_row(self, row, state, out):  # type: ignore[no-untyped-def]
        state.items.append(row.v)
        out(k=row.k, items=state.items)


class DefaultedFor(Defaulted):
    items = value("array<bigint>", default=[], ttl="1h")


@pytest.mark.parametrize("kind", [Growing, GrowingFor, Defaulted, DefaultedFor])
def test_a_list_goes_out_as_it_was_then(kind: type[Process]) -> None:
    assert [row["items"] for row in tried(kind)] == [[1], [1, 2], [1, 2, 3]]


def test_a_map_goes_out_as_it_was_then() -> None:
    found = tried(Parts, k="string", items="struct<n: bigint>")
    assert [row["items"] for row in found] == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("kind", [Defaulted, DefaultedFor])
def test_each_key_has_a_default_of_its_own(kind: type[Process]) -> None:
    assert [row["items"] for row in tried(kind, "aba")] == [[1], [2], [1, 3]]


@pytest.mark.parametrize(
    ("said", "begin"),
    [
        (parse_declaration(Kind.VALUE, ("array<bigint>",), default=[1]), [1]),
        (parse_declaration(Kind.VALUE, ("array<bigint>",), "1h", default=[1]), [1]),
        (parse_declaration(Kind.LIST, ("array<bigint>",)), [[1]]),
        (parse_declaration(Kind.LIST, ("array<bigint>",), "1h"), [[1]]),
    ],
)
def test_what_is_undone_is_undone_inside_of_values(said: object, begin: Sequence[object]) -> None:
    work = CallContext(lambda: 0)
    cells = CellFactory({"n": said}, work, TimerHeap([]), TimerHeap([]))  # type: ignore[dict-item]
    cell = cells.create("a")
    cell.n = [[1]] if said.kind is Kind.LIST else [1]  # type: ignore[attr-defined]
    saved = cells.save(cell)
    inner = cell.n[0] if said.kind is Kind.LIST else cell.n  # type: ignore[attr-defined]
    inner.append(2)
    cells.restore(cell, saved)
    assert list(cell.n) == begin


class Nested(Process):
    nested = map_of("string", "array<bigint>")
    ageing = map_of("string", "array<bigint>", ttl="1h")

    def on_row(self, row: object, state: Nested, out: Out) -> None: ...


def test_what_is_undone_is_undone_inside_of_maps() -> None:
    states = {name: getattr(Nested, name).declaration for name in ("nested", "ageing")}
    cells = CellFactory(states, CallContext(lambda: 0), TimerHeap([]), TimerHeap([]))
    cell = cells.create("a")
    for each in (cell.nested, cell.ageing):
        each["x"] = [1]
    saved = cells.save(cell)
    for each in (cell.nested, cell.ageing):
        each["x"].append(2)
    cells.restore(cell, saved)
    assert dict(cell.nested) == dict(cell.ageing) == {"x": [1]}


@pytest.mark.parametrize("name", ["items", "the items"])
def test_a_struct_that_is_emitted_has_no_other_fields(name: str) -> None:
    class Misspelt(Process):
        def on_row(self, row: Any, state: Misspelt, out: Out) -> None:
            out(row.k, [None, {"n": row.v}])
            with pytest.raises(Exception, match="is declared array<struct<n:bigint,s:struct<"):
                out(row.k, [{"n": 1, "s": {"b": 2}}])
            out(row.k, [{"s": None}, {"m": 3}] if row.v == 1 else row.v)

    type = "array<struct<n: bigint, s: struct<a: int>>>"
    trial = Trial(Misspelt, key="k", rows=ROWS, returns={"k": "string", name: type})
    message = rf'^test_state_values.py:\d+: out: column "{name}" is declared .*, and got .*"m": 3'
    with pytest.raises(UserCodeError, match=message.replace('"m"', "'m'")):
        trial.row(k="a", v=1)
    with pytest.raises(UserCodeError, match=r"and got 2 \(int\)"):
        Trial(Misspelt, key="k", rows=ROWS, returns={"k": "string", name: type}).row(k="a", v=2)


UTC_1 = timezone(timedelta(hours=1))
KEPT = [
    ("float", 0.4, 0.4000000059604645),
    ("float", 1e60, float("inf")),
    ("double", 5, 5.0),
    ("decimal(10,2)", Decimal("1.5"), Decimal("1.50")),
    ("int", True, 1),
    ("timestamp", START.replace(tzinfo=None), START),
    ("timestamp", START.astimezone(UTC_1), START),
    ("array<float>", (0.4, None), [0.4000000059604645, None]),
    ("struct<a: double, b: int>", {"a": 1}, {"a": 1.0, "b": None}),
    ("struct<a: double>", {"a": 1}, {"a": 1.0}),
    ("binary", b"x", b"x"),
]


@pytest.mark.parametrize("ttl", [None, "1h"])
@pytest.mark.parametrize(("type", "put", "kept"), KEPT)
def test_what_is_set_is_at_once_what_is_restored(
    type: str, put: object, kept: object, ttl: str | None
) -> None:
    states = {
        "n": parse_declaration(Kind.VALUE, (type,), ttl),
        "items": parse_declaration(Kind.LIST, (type,), ttl),
        "parts": parse_declaration(Kind.MAP, ("string", type), ttl),
    }
    cell = CellFactory(states, CallContext(lambda: 0), TimerHeap([]), TimerHeap([])).create("a")
    cell.n = put
    cell.items.append(put)
    cell.items += [put]
    cell.items.insert(0, put)
    cell.items[0] = put
    cell.items[1:2] = [put, None]
    cell.parts["a"] = cell.parts["b"] = put
    cell.parts.setdefault("c", put)
    cell.parts.update(d=put)
    assert repr(cell.n) == repr(kept)
    assert repr(list(cell.items)) == repr([kept, kept, None, kept])
    assert repr(dict(cell.parts)) == repr(dict.fromkeys("abcd", kept))
    cell.items, cell.parts = (put,), {"x": put}
    assert repr((list(cell.items), dict(cell.parts))) == repr(([kept], {"x": kept}))
    cell.n = cell.items = cell.parts = None
    assert (cell.n, list(cell.items), dict(cell.parts)) == (None, [], {})


WRONG = [
    ("tinyint", 128),
    ("int", "five"),
    ("bigint", 1 << 63),
    ("bigint", 1.0),
    ("string", 5),
    ("date", START),
    ("array<int>", [1, "x"]),
    ("array<int>", "x"),
    ("struct<a: int>", {"a": "x"}),
    ("struct<a: int>", {"b": 1}),
    ("struct<a: int, b: int>", {"a": 1, "B": 2}),
    ("struct<a: int>", 5),
    ("array<struct<a: int>>", [{"a": 1, "b": 1}]),
    ("date", 1 << 31),
    ("date", (1 << 31) - 1),
    ("timestamp", (1 << 63) - 1),
    ("timestamp", 10**18),
    ("decimal(9, 2)", Decimal("NaN")),
    ("decimal(9, 2)", Decimal("1e50")),
    ("double", Decimal("sNaN")),
]


@pytest.mark.parametrize("ttl", [None, "1h"])
@pytest.mark.parametrize(("type", "put"), WRONG)
def test_what_does_not_fit_is_reported_when_it_is_set(
    type: str, put: object, ttl: str | None
) -> None:
    states = {
        "n": parse_declaration(Kind.VALUE, (type,), ttl),
        "items": parse_declaration(Kind.LIST, (type,), ttl),
        "parts": parse_declaration(Kind.MAP, ("string", type), ttl),
    }
    cell = CellFactory(states, CallContext(lambda: 0), TimerHeap([]), TimerHeap([])).create("a")
    for write in (
        lambda: setattr(cell, "n", put),
        lambda: cell.items.append(put),
        lambda: cell.items.extend([put]),
        lambda: setattr(cell, "items", [put]),
        lambda: cell.parts.setdefault("x", put),
        lambda: setattr(cell, "parts", {"x": put}),
        lambda: setattr(cell, "items", "text"),
        lambda: setattr(cell, "parts", 3),
    ):
        with pytest.raises(TypeError, match=r'^state "\w+" is a \w+ of .*, and was '):
            write()
    assert (cell.n, list(cell.items), dict(cell.parts)) == (None, [], {})


@pytest.mark.parametrize(("type", "put"), WRONG)
def test_a_default_is_of_the_type_of_its_state(type: str, put: object) -> None:
    with pytest.raises(ValueError, match=r"^default: .* is no \w+"):
        parse_declaration(Kind.VALUE, (type,), default=put)
    assert parse_declaration(Kind.VALUE, ("double",), default=0).default.__class__ is float
