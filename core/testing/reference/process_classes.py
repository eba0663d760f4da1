"""A user's class over a bounded set of rows: key by key, one row or timer after the other.

State is an attribute; a value with a ttl expires when its time has passed. Whatever depends on the
wall clock has no single answer.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.core.api.user_code import load_function
from headrace.core.api.window_classes import EPOCH
from headrace.core.plan import nodes
from headrace.core.process.declarations import Kind
from headrace.core.testing.reference.rows import TimedRow, Value, normalize_key

BEGIN = {Kind.LIST: list, Kind.MAP: dict}


class KeyState:
    """The state of one key."""

    def __init__(self, body: nodes.ProcessBody, context: SimpleNamespace) -> None:
        emitted = (
            (name, declaration, BEGIN.get(declaration.kind)) for name, declaration in body.states
        )
        kept = {
            name: make() if make else declaration.default for name, declaration, make in emitted
        }
        vars(self).update(
            _declarations=dict(body.states), _context=context, _values=kept, _set_at_us={}
        )

    def __getattr__(self, name: str) -> Any:
        ttl_us = self._declarations[name].ttl_us
        if ttl_us is not None and self._set_at_us.get(name, 0) + ttl_us < self._context.time_us:
            return self._declarations[name].default
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        declaration, now = (
            self._declarations[name],
            EPOCH + timedelta(microseconds=self._context.time_us),
        )
        if declaration.processing or (
            declaration.ttl_us is not None and declaration.kind is not Kind.VALUE
        ):
            raise NotImplementedError("what depends on how time passes has no single answer")
        is_late = declaration.kind is Kind.TIMER and value is not None and value < now
        self._values[name] = now if is_late else value
        self._set_at_us[name] = self._context.time_us

    def due(self) -> tuple[datetime, str] | None:
        """Return the earliest timer; of two at the same time, the one declared first."""
        timers = [
            name
            for name, declaration in self._declarations.items()
            if declaration.kind is Kind.TIMER
        ]
        found = [
            (self._values[name], at, name) for at, name in enumerate(timers) if self._values[name]
        ]
        return (min(found)[0], min(found)[2]) if found else None


FAILED = "(failed)"
"""The output of the rows on which a class fails, whose effects are undone."""

Groups = Sequence[tuple[Mapping[str, Value], list[TimedRow]]]
"""The rows of each key."""


def run_process(
    body: nodes.ProcessBody, *inputs: Groups, rules: Sequence[TimedRow] | None = None
) -> Iterator[tuple[str, TimedRow]]:
    """Return the output of a class for the rows of each key, with the names of the outputs.

    Every key receives all `rules`, in the order of all rows.
    """
    process: Any = load_function(Path(body.file), body.name)()
    names = ("on_row",) if len(inputs) == 1 else ("on_left", "on_right")
    if not all(hasattr(process, name) for name in names):
        raise NotImplementedError("it sees many rows at once")
    keys: dict[tuple[Value, ...], tuple[tuple[Value, ...], list[tuple[TimedRow, str]]]] = {}
    for name, groups in zip(names, inputs, strict=True):
        for key, members in groups:
            values = tuple(key.values())
            every = [(rule, "on_rule") for rule in rules or ()]
            found = keys.setdefault(tuple(map(normalize_key, values)), (values, every))
            found[1].extend((row, name) for row in members)
    for number, (values, rows) in enumerate(keys.values()):
        yield from _run_key(process, body, values, rows, number)


def _run_key(
    process: Any,
    body: nodes.ProcessBody,
    key: tuple[Value, ...],
    rows: list[tuple[TimedRow, str]],
    number: int,
) -> Iterator[tuple[str, TimedRow]]:
    shown = key[0] if len(key) == 1 else key
    context = SimpleNamespace(key=shown, time_us=0, watermark_us=None, timer=None)
    process._set_context(context)
    memory, emitted = KeyState(body, context), list[tuple[str, dict[str, Value]]]()
    out = _Collector(body, emitted)
    left = sorted(rows, key=lambda row: row[0].order)
    while left or memory.due():
        due = memory.due()
        if left and (due is None or _get_time(left[0][0]) <= due[0]):
            row, method = left.pop(0)
            context.time_us = row.time
            outs = () if method == "on_rule" else (out,)
            before = copy.deepcopy((memory._values, memory._set_at_us))
            try:
                getattr(process, method)(SimpleNamespace(**row.values), memory, *outs)
            except ValueError:
                vars(memory).update(_values=before[0], _set_at_us=before[1])
                emitted.clear()
                yield FAILED, row
        else:
            assert due is not None
            context.time_us, context.timer = (due[0] - EPOCH) // timedelta(microseconds=1), due[1]
            memory._values[due[1]] = None
            process.on_timer(due[0], memory, out)
            context.timer = None
        for at, (name, values) in enumerate(emitted):
            yield name, TimedRow(values, context.time_us, (context.time_us, number, at))
        emitted.clear()


class _Collector:
    """Collects the emitted rows."""

    def __init__(
        self, body: nodes.ProcessBody, emitted: list[tuple[str, dict[str, Value]]]
    ) -> None:
        self._schemas = {"": body.returns, **dict(body.outputs)}
        self._emitted = emitted

    def __call__(self, *values: Value, **columns: Value) -> None:
        self._put("", values, columns)

    def __getattr__(self, name: str) -> Any:
        return lambda *values, **columns: self._put(name, values, columns)

    def _put(self, name: str, values: tuple[Value, ...], columns: dict[str, Value]) -> None:
        names = self._schemas[name].names
        row = inspect.Signature(
            [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
        ).bind(*values, **columns)
        self._emitted.append((name, {n: row.arguments[n] for n in names}))


def _get_time(row: TimedRow) -> datetime:
    assert row.time is not None
    return EPOCH + timedelta(microseconds=row.time)
