"""A user's class over a bounded set of rows: key by key, one row or timer after the other.

State is an attribute; a value with a ttl expires when its time has passed. Whatever depends on the
wall clock has no single answer.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.core.api.user_code import load_function
from headrace.core.plan import nodes
from headrace.core.process.declarations import Kind
from tests.support.reference.rows import Row, Value, same

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN = {Kind.LIST: list, Kind.MAP: dict}


class Memory:
    """The state of one key."""

    def __init__(self, body: nodes.ProcessBody, here: SimpleNamespace) -> None:
        made = ((name, said, BEGIN.get(said.kind)) for name, said in body.states)
        kept = {name: make() if make else said.default for name, said, make in made}
        vars(self).update(_said=dict(body.states), _here=here, _kept=kept, _set={})

    def __getattr__(self, name: str) -> Any:
        ttl_us = self._said[name].ttl_us
        if ttl_us is not None and self._set.get(name, 0) + ttl_us < self._here.time_us:
            return self._said[name].default
        return self._kept[name]

    def __setattr__(self, name: str, value: Any) -> None:
        said, now = self._said[name], EPOCH + timedelta(microseconds=self._here.time_us)
        if said.processing or (said.ttl_us is not None and said.kind is not Kind.VALUE):
            raise NotImplementedError("what depends on how time passes has no single answer")
        is_late = said.kind is Kind.TIMER and value is not None and value < now
        self._kept[name] = now if is_late else value
        self._set[name] = self._here.time_us

    def due(self) -> tuple[datetime, str] | None:
        """Return the earliest timer; of two at the same time, the one declared first."""
        timers = [name for name, said in self._said.items() if said.kind is Kind.TIMER]
        found = [(self._kept[name], at, name) for at, name in enumerate(timers) if self._kept[name]]
        return (min(found)[0], min(found)[2]) if found else None


FAILED = "(failed)"
"""The output of the rows on which a class fails, whose effects are undone."""

Groups = Sequence[tuple[Mapping[str, Value], list[Row]]]
"""The rows of each key."""


def run(
    body: nodes.ProcessBody, *inputs: Groups, rules: Sequence[Row] | None = None
) -> Iterator[tuple[str, Row]]:
    """Return the output of a class for the rows of each key, with the names of the outputs.

    Every key receives all `rules`, in the order of all rows.
    """
    process: Any = load_function(Path(body.file), body.name)()
    names = ("on_row",) if len(inputs) == 1 else ("on_left", "on_right")
    if not all(hasattr(process, name) for name in names):
        raise NotImplementedError("it sees many rows at once")
    keys: dict[tuple[Value, ...], tuple[tuple[Value, ...], list[tuple[Row, str]]]] = {}
    for name, groups in zip(names, inputs, strict=True):
        for key, members in groups:
            values = tuple(key.values())
            every = [(rule, "on_rule") for rule in rules or ()]
            found = keys.setdefault(tuple(map(same, values)), (values, every))
            found[1].extend((row, name) for row in members)
    for number, (values, rows) in enumerate(keys.values()):
        yield from _of_key(process, body, values, rows, number)


def _of_key(
    process: Any,
    body: nodes.ProcessBody,
    key: tuple[Value, ...],
    rows: list[tuple[Row, str]],
    number: int,
) -> Iterator[tuple[str, Row]]:
    shown = key[0] if len(key) == 1 else key
    here = SimpleNamespace(key=shown, time_us=0, watermark_us=None, timer=None)
    process._set_context(here)
    memory, made = Memory(body, here), list[tuple[str, dict[str, Value]]]()
    out = _Out(body, made)
    left = sorted(rows, key=lambda row: row[0].order)
    while left or memory.due():
        due = memory.due()
        if left and (due is None or _moment(left[0][0]) <= due[0]):
            row, method = left.pop(0)
            here.time_us = row.time
            outs = () if method == "on_rule" else (out,)
            before = copy.deepcopy((memory._kept, memory._set))
            try:
                getattr(process, method)(SimpleNamespace(**row.values), memory, *outs)
            except ValueError:
                vars(memory).update(_kept=before[0], _set=before[1])
                made.clear()
                yield FAILED, row
        else:
            assert due is not None
            here.time_us, here.timer = (due[0] - EPOCH) // timedelta(microseconds=1), due[1]
            memory._kept[due[1]] = None
            process.on_timer(due[0], memory, out)
            here.timer = None
        for at, (name, values) in enumerate(made):
            yield name, Row(values, here.time_us, (here.time_us, number, at))
        made.clear()


class _Out:
    """Collects the emitted rows."""

    def __init__(self, body: nodes.ProcessBody, made: list[tuple[str, dict[str, Value]]]) -> None:
        self._schemas = {"": body.returns, **dict(body.outputs)}
        self._made = made

    def __call__(self, *values: Value, **columns: Value) -> None:
        self._put("", values, columns)

    def __getattr__(self, name: str) -> Any:
        return lambda *values, **columns: self._put(name, values, columns)

    def _put(self, name: str, values: tuple[Value, ...], columns: dict[str, Value]) -> None:
        names = self._schemas[name].names
        row = inspect.Signature(
            [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
        ).bind(*values, **columns)
        self._made.append((name, {n: row.arguments[n] for n in names}))


def _moment(row: Row) -> datetime:
    assert row.time is not None
    return EPOCH + timedelta(microseconds=row.time)
