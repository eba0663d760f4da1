"""The metadata to read the states of a join, as plain data for a checkpoint, and the join rebuilt.

Each column has its name, its type, and the name of the input's column that it is, "" if of none.

    {"type": "left", "ordered": false,
     "sides": [{"name": "orders", "timed": true,
                "key": [["id", "bigint", "id"]],
                "columns": [["amount", "double", "amount"]]}, ...],
     "matching": {"within": {"least_us": 0, "most_us": 60000000, "processing": false}}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.expressions.typed import NOWHERE, ColumnReference
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    IntervalMatch,
    JoinMatching,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Ttl, Window
from headrace.core.types.data_types import ATOMS
from headrace.core.types.elements import SEQUENCE
from headrace.core.types.type_parser import parse_type


def describe_join(step: nodes.Step, join: nodes.Join, plan: nodes.Plan) -> dict[str, Any]:
    """Return the metadata of a join."""
    streams = [plan.streams[name] for name in step.inputs]
    return {
        "type": join.type,
        "ordered": any(stream.has_row_order for stream in step.main_outputs),
        "sides": [
            {
                "name": side.name,
                "timed": stream.has_event_time,
                "key": _describe_columns(side.key),
                "columns": _describe_columns(side.columns),
            }
            for side, stream in zip((join.left, join.right), streams, strict=True)
        ],
        "matching": _describe_matching(join.matching),
    }


def rebuild_join(document: Mapping[str, Any], window: Window | None) -> nodes.Join:
    """Rebuild a join, as far as its states are concerned."""
    left, right = (
        nodes.JoinSide(
            each["name"], _rebuild_columns(each["key"]), _rebuild_columns(each["columns"])
        )
        for each in document["sides"]
    )
    ((kind, of),) = document["matching"].items()
    return nodes.Join(left, right, document["type"], _rebuild_matching(kind, of, window), None, "")


def _describe_columns(columns: Iterable[nodes.ComputedColumn]) -> list[list[str]]:
    return [
        [c.name, str(c.value.type), c.value.name if isinstance(c.value, ColumnReference) else ""]
        for c in columns
    ]


def _rebuild_columns(columns: Iterable[tuple[str, str, str]]) -> tuple[nodes.ComputedColumn, ...]:
    types = {text: ATOMS[text] if text in ATOMS else parse_type(text)[0] for _, text, _ in columns}
    return tuple(
        nodes.ComputedColumn(name, ColumnReference(types[text], True, NOWHERE, of))
        for name, text, of in columns
    )


def _describe_matching(matching: JoinMatching) -> dict[str, Any]:
    match matching:
        case IntervalMatch(least_us, most_us, processing):
            bounds = {"least_us": least_us, "most_us": most_us}
            return {"within": {**bounds, "processing": processing}}
        case WindowMatch():
            return {"window": {}}
        case AsOfMatch(ttl_us, sequence):
            order = {"sequence": str(sequence.value.type)} if sequence is not None else {}
            return {"as_of": {"ttl_us": ttl_us, **order}}
        case ChangelogMatch(ttl, keys):
            stored = ttl and {"after_us": ttl.after_us, "processing": ttl.uses_processing_time}
            return {"changes": {"ttl": stored, "keys": [list(key) for key in keys]}}
        case TableMatch(ttl_us):
            return {"table": {} if ttl_us is None else {"ttl_us": ttl_us}}
        case BroadcastMatch(key, ttl_us, in_time):
            of = None if key is None else _describe_columns(key)
            return {"everywhere": {"key": of, "ttl_us": ttl_us, "in_time": in_time}}
    raise AssertionError(matching)


def _rebuild_matching(
    kind: str, document: Mapping[str, Any], window: Window | None
) -> JoinMatching:
    match kind:
        case "within":
            return IntervalMatch(document["least_us"], document["most_us"], document["processing"])
        case "as_of":
            order = document.get("sequence")
            (sequence,) = _rebuild_columns([(SEQUENCE, order, SEQUENCE)]) if order else (None,)
            return AsOfMatch(document["ttl_us"], sequence)
        case "changes":
            left, right = document["keys"]
            ttl = document["ttl"] and Ttl(
                document["ttl"]["after_us"], document["ttl"]["processing"]
            )
            return ChangelogMatch(ttl, (tuple(left), tuple(right)))
        case "table":
            return TableMatch(document.get("ttl_us"))
        case "everywhere":
            key = None if document["key"] is None else _rebuild_columns(document["key"])
            return BroadcastMatch(key, document["ttl_us"], document["in_time"])
    if window is None:
        raise KeyError(kind)
    return WindowMatch(window)
