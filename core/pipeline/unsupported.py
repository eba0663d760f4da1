"""Hints for keys that are unknown or misplaced.

A newcomer writes `filter` for `where`, or puts a step's clause into a source. Each table here gives
a hint.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.pipeline.connector_spec import ConnectorSpec, ConnectorSpecs
from headrace.core.pipeline.model import SinkKeys, SourceKeys, StepKeys
from headrace.core.pipeline.settings import Settings

CLAUSES = (
    *(
        "sql",
        "lookups",
        "join",
        "connect",
        "broadcast",
        "iterate",
        "explode",
        "where",
        "map",
        "with",
        "lookup",
        "key",
        "window",
        "aggregate",
        "emit_empty",
        "apply",
        "top",
        "over",
        "late_to",
    ),
    *(
        "ttl",
        "dedup",
        "process",
        "match",
        "having",
        "extend",
        "select",
        "drop",
        "route",
        "event_time",
    ),
    "watermark",
)

QUALIFYING_CLAUSES = (
    "lookups",
    "key",
    "window",
    "emit_empty",
    "ttl",
    "having",
    "watermark",
    "late_to",
)
"""Clauses that only qualify another clause."""

STEP_KEY_ALIASES: Mapping[str, str] = {
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
    **dict.fromkeys(("analytic", "window_functions"), "over"),
    **dict.fromkeys(("pattern", "cep", "match_recognize", "sequence"), "match"),
    **dict.fromkeys(("python", "udf", "function", "apply_python"), "map"),
    **dict.fromkeys(("query", "sql_query", "statement"), "sql"),
}
CLAUSE_EXAMPLES: Mapping[str, str] = {
    "select": "[id, price]",
    "with": "{total: price * amount}",
    "extend": "{share: part / total}",
    "drop": "[note]",
    "explode": "{item: items}",
    "route": "{big: price > 100}",
    "key": "[id]",
    "aggregate": "{n: count(*)}",
    "dedup": "{key: id}",
    "top": "{n: 3, by: price desc}",
    "over": "{previous: lag(price)}",
    "map": "{python: FILE.py:NAME, returns: {total: double}}",
    "sql": "select id, price from orders",
}
"""A value for each clause that other systems call by another name, and write in another form."""
PLACEMENT_HINTS: Mapping[str, str] = {
    **dict.fromkeys(("slot_sharing_group", "slot_group"), 'did you mean "slot"?'),
    **dict.fromkeys(("disable_chaining", "start_new_chain"), "write chain: false"),
}
"""Hints for the words that other systems have for `slot` and `chain`."""
ORDER_KEYS = ("order_by", "orderby", "order", "sort", "sort_by")
ORDER_HINT = "a stream has no order; top: {n: 3, by: price desc} emits the first rows of each key"
WINDOW_KEYS = (
    *("lateness", "trigger", "evict", "tumble", "slide", "session", "cumulate"),
    *("accumulate", "every", "offset", "global"),
)


def suggest_in_step(key: str, connectors: ConnectorSpecs) -> str:
    """Return the hint for a key that a step does not have."""
    if key in STEP_KEY_ALIASES:
        return f'did you mean "{STEP_KEY_ALIASES[key]}"?'
    if key in PLACEMENT_HINTS:
        return PLACEMENT_HINTS[key]
    if key in ORDER_KEYS:
        return ORDER_HINT
    if key == "union":
        return "a union is a list: from: [a, b]"
    if key in WINDOW_KEYS:
        return 'it belongs inside "window"'
    if key in connectors:
        return _suggest_connector_section(connectors[key])
    if key in SourceKeys.fields_by_key():
        return "it belongs in a source" + (" or a sink" if key in SinkKeys.fields_by_key() else "")
    return ""


def _suggest_connector_section(connector: ConnectorSpec) -> str:
    """Return the hint that says where a connector belongs."""
    if connector.source is None and connector.sink is None:
        return 'it belongs inside "lookup", in a step'
    return "a connector belongs in a source or a sink"


def suggest_in_endpoint(key: str, kind: str, connectors: ConnectorSpecs, connector: str) -> str:
    """Return the hint for a key that a source or a sink does not have, given its connector."""
    hint = suggest_connector_option(key, kind, connectors, connector)
    if hint:
        return hint
    other, written = ("sink", SinkKeys) if kind == "source" else ("source", SourceKeys)
    if key in ("from", "input") and kind == "source":
        return "a source reads from its connector; it belongs in a step or a sink"
    if kind == "source" and (key == "chain" or "chain" in PLACEMENT_HINTS.get(key, "")):
        return "a source always begins a task; it belongs in a step or a sink"
    if key in PLACEMENT_HINTS:
        return PLACEMENT_HINTS[key]
    if key == "parallelism":
        return "it belongs in settings, a step or a sink"
    if key in written.fields_by_key():
        return f"it belongs in a {other}"
    if key in StepKeys.fields_by_key():
        return "it belongs in a step"
    return ""


def suggest_connector_option(
    key: str, kind: str, connectors: ConnectorSpecs, connector: str = ""
) -> str:
    """Return the hint for a key that is a connector's option, or a key such as `type`."""
    for name in (connector,) if connector else connectors:
        side = getattr(connectors.get(name), kind, None)
        if side is not None and key in side.options.fields_by_key():
            return f'it belongs inside "{name}": {name}: {{{key}: ...}}'
    if key in ("type", "connector", "kind"):
        return "the connector is a key of its own, as in files: {path: ...}"
    return ""


def suggest_at_top_level(key: str, connectors: ConnectorSpecs) -> str:
    """Return the hint for a key that a document does not have at its top level."""
    if key in Settings.fields_by_key():
        return 'it belongs inside "settings"'
    if key in connectors:
        place = _suggest_connector_section(connectors[key])
        ends = connectors[key].source or connectors[key].sink
        return f"{place}: sources: {{name: {{files: ...}}}}" if ends else place
    return suggest_part(key)


def suggest_part(key: str) -> str:
    """Return the hint that says which kinds of parts have a key, if any has it."""
    places = [
        f"a {kind}"
        for kind, model in (("source", SourceKeys), ("step", StepKeys), ("sink", SinkKeys))
        if key in model.fields_by_key()
    ]
    if not places:
        return ""
    listed = filter(None, (", ".join(places[:-1]), places[-1]))
    return f"it belongs in {' or '.join(listed)}"
