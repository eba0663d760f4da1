"""The condition `on` of a join: equalities between the inputs, and the rest of the condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from headrace.core.expressions import function
from headrace.core.expressions.functions import TABLE
from headrace.core.expressions.typed import Apply, ProcessingTime, Typed, columns, walk
from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import Known, Report, condition
from headrace.core.plan.nodes import Kind
from headrace.core.types import Array, Field, Schema, Struct


@dataclass(frozen=True, slots=True)
class Joined:
    """An input of a join: its name, its kind, and its known columns."""

    name: str
    kind: Kind
    known: Known
    timed: bool


@dataclass(frozen=True, slots=True)
class Conditions:
    """The parts of a join condition, over columns that are called `input.column`."""

    pairs: tuple[tuple[Typed, Typed], ...]
    """Pairs of a left and a right value that must be equal."""
    rest: Typed | None
    """The rest of the condition."""


def read_on(text: Text, left: Joined, right: Joined, report: Report) -> Conditions | None:
    """Return the conditions; None if they are invalid, which is reported."""
    typed = condition(text, _both(left, right), report)
    if typed is None:
        return None
    if any(isinstance(node, ProcessingTime) for node in walk(typed)):
        report.add("the processing time has no place in a join", text.locate())
        return None
    pairs: list[tuple[Typed, Typed]] = []
    rest: list[Typed] = []
    for each in _conjuncts(typed):
        pair = _pair(each, left, right)
        if pair is None:
            rest.append(each)
            continue
        pairs.append(pair)
        if isinstance(pair[0].type, Array | Struct):
            at = text.locate(each.span.start, each.span.end)
            report.add(f"wanted a key of a single value, got {pair[0].type}", at)
    return Conditions(tuple(pairs), _all(rest))


def _both(left: Joined, right: Joined) -> Known:
    """Return the columns of both inputs."""
    fields = (
        Field(f"{side.name}.{field.name}", field.type, field.nullable)
        for side in (left, right)
        for field in side.known.schema
    )
    tables = {
        side.name: {name: f"{side.name}.{name}" for name in side.known.schema.names}
        for side in (left, right)
    }
    return Known(Schema(tuple(fields)), tables=tables)


def _pair(typed: Typed, left: Joined, right: Joined) -> tuple[Typed, Typed] | None:
    """Return the left and the right value of an equality between the inputs; None for others."""
    if not (isinstance(typed, Apply) and typed.function in ("=", "==")):
        return None
    one, other = typed.arguments
    if _is_of(one, right) and _is_of(other, left):
        one, other = other, one
    elif not (_is_of(one, left) and _is_of(other, right)):
        return None
    return (one, other) if one.type == other.type else None


def _is_of(typed: Typed, side: Joined) -> bool:
    names = columns(typed)
    return bool(names) and all(name.startswith(f"{side.name}.") for name in names)


def _conjuncts(typed: Typed) -> Iterator[Typed]:
    """Yield the operands of a conjunction."""
    if isinstance(typed, Apply) and typed.function == "and":
        for argument in typed.arguments:
            yield from _conjuncts(argument)
    else:
        yield typed


def _all(conditions: Sequence[Typed]) -> Typed | None:
    def both(one: Typed, other: Typed) -> Typed:
        return TABLE["and"].resolve(function.Call("and", (one, other), other.span))

    return reduce(both, conditions) if conditions else None
