"""What classes keep and put out are values: none of them is changed through another one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from headrace.core.operators.process.cells import Cells
from headrace.core.operators.process.timers import Timers
from headrace.core.operators.process.work import Work
from headrace.core.process import Out, Process, list_of, map_of, value
from headrace.core.process.declared import Kind, declared
from headrace.core.testing import Trial

ROWS = {"k": "string", "v": "bigint", "at": "timestamp"}
RETURNS = {"k": "string", "items": "array<bigint>"}
START = datetime(2026, 1, 1, tzinfo=UTC)


def tried(kind: type[Process], keys: str = "aaa", **columns: str) -> list[dict[str, object]]:
    """What becomes of rows of these keys, with v=1, 2, ... and a second between them."""
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
        (declared(Kind.VALUE, ("array<bigint>",), default=[1]), [1]),
        (declared(Kind.VALUE, ("array<bigint>",), "1h", default=[1]), [1]),
        (declared(Kind.LIST, ("array<bigint>",)), [[1]]),
        (declared(Kind.LIST, ("array<bigint>",), "1h"), [[1]]),
    ],
)
def test_what_is_undone_is_undone_inside_of_values(said: object, begin: Sequence[object]) -> None:
    work = Work(lambda: 0)
    cells = Cells({"n": said}, work, Timers([]), Timers([]))  # type: ignore[dict-item]
    cell = cells.new("a")
    cell.n = [[1]] if said.kind is Kind.LIST else [1]  # type: ignore[attr-defined]
    saved = cells.saved(cell)
    inner = cell.n[0] if said.kind is Kind.LIST else cell.n  # type: ignore[attr-defined]
    inner.append(2)
    cells.restore(cell, saved)
    assert list(cell.n) == begin


class Nested(Process):
    nested = map_of("string", "array<bigint>")
    ageing = map_of("string", "array<bigint>", ttl="1h")

    def on_row(self, row: object, state: Nested, out: Out) -> None: ...


def test_what_is_undone_is_undone_inside_of_maps() -> None:
    states = {name: getattr(Nested, name).said for name in ("nested", "ageing")}
    cells = Cells(states, Work(lambda: 0), Timers([]), Timers([]))
    cell = cells.new("a")
    for each in (cell.nested, cell.ageing):
        each["x"] = [1]
    saved = cells.saved(cell)
    for each in (cell.nested, cell.ageing):
        each["x"].append(2)
    cells.restore(cell, saved)
    assert dict(cell.nested) == dict(cell.ageing) == {"x": [1]}
