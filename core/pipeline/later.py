"""Keys that are planned but not built, and hints for keys that are unknown or misplaced.

A newcomer writes `filter` for `where`, or puts a step's clause into a source. Each table here gives
a hint.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.connector import Connector, Connectors
from headrace.core.pipeline.model import SinkKeys, SourceKeys, StepKeys
from headrace.core.pipeline.settings import Settings

LATER_CLAUSES = ("match", "iterate", "sql")

CLAUSES = (
    *(
        "join",
        "connect",
        "broadcast",
        "explode",
        "where",
        "map",
        "with",
        "lookup",
        "key",
        "window",
        "aggregate",
        "apply",
        "top",
    ),
    *("ttl", "dedup", "process", "having", "select", "drop", "route"),
)

BESIDE = ("key", "window", "ttl", "having")
"""Clauses that only qualify another clause."""

HABITS: Mapping[str, str] = {
    **dict.fromkeys(("filter", "if", "condition"), "where"),
    **dict.fromkeys(("input", "inputs", "source", "sources", "in", "depends_on"), "from"),
    **dict.fromkeys(("columns", "project", "projection", "fields"), "select"),
    **dict.fromkeys(("add", "compute", "with_columns", "assign"), "with"),
    **dict.fromkeys(("remove", "exclude"), "drop"),
    **dict.fromkeys(("unnest", "flatten"), "explode"),
    **dict.fromkeys(("switch", "branch", "split", "case"), "route"),
    **dict.fromkeys(("group_by", "groupby", "group", "partition_by", "by"), "key"),
    **dict.fromkeys(("agg", "aggregates", "aggregation", "summarize", "reduce"), "aggregate"),
    **dict.fromkeys(("distinct", "unique", "deduplicate"), "dedup"),
    **dict.fromkeys(("limit", "rank", "top_n"), "top"),
    **dict.fromkeys(("python", "udf", "function", "apply_python"), "map"),
}
IN_WINDOW = (
    *("lateness", "trigger", "evict", "tumble", "slide", "session", "cumulate"),
    *("accumulate", "every", "offset", "global"),
)


def in_step(key: str, connectors: Connectors) -> str:
    """Return the hint for a key that a step does not have."""
    if key in HABITS:
        return f'did you mean "{HABITS[key]}"?'
    if key == "union":
        return "a union is a list: from: [a, b]"
    if key in IN_WINDOW:
        return 'it belongs inside "window"'
    if key == "late_to":
        return "it belongs inside window, process, join, connect or broadcast"
    if key in connectors:
        return _place_of(connectors[key])
    if key in SourceKeys.written():
        return "it belongs in a source" + (" or a sink" if key in SinkKeys.written() else "")
    return ""


def _place_of(connector: Connector) -> str:
    """Return the hint that says where a connector belongs."""
    if connector.source is None and connector.sink is None:
        return 'it belongs inside "lookup", in a step'
    return "a connector belongs in a source or a sink"


def in_end(key: str, kind: str, connectors: Connectors, mine: str) -> str:
    """Return the hint for a key that a source or a sink does not have; `mine` is its connector."""
    hint = of_connector(key, kind, connectors, mine)
    if hint:
        return hint
    other, written = ("sink", SinkKeys) if kind == "source" else ("source", SourceKeys)
    if key in ("from", "input") and kind == "source":
        return "a source reads from its connector; it belongs in a step or a sink"
    if key == "parallelism":
        return "it belongs in settings, a step or a sink"
    if key in written.written():
        return f"it belongs in a {other}"
    if key in StepKeys.written() or key in LATER_CLAUSES:
        return "it belongs in a step"
    return ""


def of_connector(key: str, kind: str, connectors: Connectors, mine: str = "") -> str:
    """Return the hint for a key that is a connector's option, or a key such as `type`."""
    for name in (mine,) if mine else connectors:
        side = getattr(connectors.get(name), kind, None)
        if side is not None and key in side.options.written():
            return f'it belongs inside "{name}": {name}: {{{key}: ...}}'
    if key in ("type", "connector", "kind"):
        return "the connector is a key of its own, as in files: {path: ...}"
    return ""


def at_top(key: str, connectors: Connectors) -> str:
    """Return the hint for a key that a document does not have at its top level."""
    if key in Settings.written():
        return 'it belongs inside "settings"'
    if key in connectors:
        place = _place_of(connectors[key])
        ends = connectors[key].source or connectors[key].sink
        return f"{place}: sources: {{name: {{files: ...}}}}" if ends else place
    places = [
        kind
        for kind, model in (("source", SourceKeys), ("step", StepKeys), ("sink", SinkKeys))
        if key in model.written()
    ]
    return f"it belongs in a {' or a '.join(places)}" if places else ""
