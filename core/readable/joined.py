"""The metadata to read the states of a join, as plain data for a checkpoint, and the join rebuilt.

{"type": "left", "ordered": false,
 "sides": [{"name": "orders", "timed": true,
            "key": [["id", "bigint", "id"]],              a column, and which of the input's
            "columns": [["amount", "double", "amount"]]}, ...],     it is; "" for none of them
 "matching": {"within": {"least_us": 0, "most_us": 60000000, "processing": false}}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.expressions import Span
from headrace.core.expressions.typed import Column
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOf, Changing, Everywhere, Matching, SameWindow, Within
from headrace.core.plan.windows import Ttl, Window
from headrace.core.type_parser import parse_type
from headrace.core.types import ATOMS

NOWHERE = Span(0, 0)


def described_join(step: nodes.Step, join: nodes.Join, plan: nodes.Plan) -> dict[str, Any]:
    """Return the metadata of a join."""
    streams = [plan.streams[name] for name in step.inputs]
    return {
        "type": join.type,
        "ordered": any(stream.ordered for stream in step.rows),
        "sides": [
            {
                "name": side.name,
                "timed": stream.timed,
                "key": _columns(side.key),
                "columns": _columns(side.columns),
            }
            for side, stream in zip((join.left, join.right), streams, strict=True)
        ],
        "matching": _matching(join.matching),
    }


def join_of(said: Mapping[str, Any], window: Window | None) -> nodes.Join:
    """Rebuild a join, as far as its states are concerned."""
    left, right = (
        nodes.Side(each["name"], _computed(each["key"]), _computed(each["columns"]))
        for each in said["sides"]
    )
    ((kind, of),) = said["matching"].items()
    return nodes.Join(left, right, said["type"], _matching_of(kind, of, window), None, "")


def _columns(columns: Iterable[nodes.Computed]) -> list[list[str]]:
    return [
        [c.name, str(c.value.type), c.value.name if isinstance(c.value, Column) else ""]
        for c in columns
    ]


def _computed(columns: Iterable[tuple[str, str, str]]) -> tuple[nodes.Computed, ...]:
    types = {text: ATOMS[text] if text in ATOMS else parse_type(text)[0] for _, text, _ in columns}
    return tuple(
        nodes.Computed(name, Column(types[text], True, NOWHERE, of)) for name, text, of in columns
    )


def _matching(matching: Matching) -> dict[str, Any]:
    match matching:
        case Within(least_us, most_us, processing):
            bounds = {"least_us": least_us, "most_us": most_us}
            return {"within": {**bounds, "processing": processing}}
        case SameWindow():
            return {"window": {}}
        case AsOf(ttl_us):
            return {"as_of": {"ttl_us": ttl_us}}
        case Changing(ttl, keys):
            stored = ttl and {"after_us": ttl.after_us, "processing": ttl.processing}
            return {"changes": {"ttl": stored, "keys": [list(key) for key in keys]}}
        case Everywhere(key, ttl_us, in_time):
            of = None if key is None else _columns(key)
            return {"everywhere": {"key": of, "ttl_us": ttl_us, "in_time": in_time}}
    raise AssertionError(matching)


def _matching_of(kind: str, said: Mapping[str, Any], window: Window | None) -> Matching:
    match kind:
        case "within":
            return Within(said["least_us"], said["most_us"], said["processing"])
        case "as_of":
            return AsOf(said["ttl_us"])
        case "changes":
            left, right = said["keys"]
            ttl = said["ttl"] and Ttl(said["ttl"]["after_us"], said["ttl"]["processing"])
            return Changing(ttl, (tuple(left), tuple(right)))
        case "everywhere":
            key = None if said["key"] is None else _computed(said["key"])
            return Everywhere(key, said["ttl_us"], said["in_time"])
    if window is None:
        raise KeyError(kind)
    return SameWindow(window)
