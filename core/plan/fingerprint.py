"""Fingerprints: the meaning of a step's state, as plain data that can be compared and shown.

A checkpoint stores the fingerprints, and a state is restored only if its meaning is the same.

    {"key": [["auction", "bigint"]],                   by position: column names do not matter
     "window": "window tumble 10s", "does": "aggregate",
     "calls": {"sum(price)": {"of": ["double"], "keeps": [["sum", "double"], ["count", "bigint"]]}},
     "aggregates": {"total": ["sum(price)"]},
     "columns": {},                                    of rows that are stored unchanged
     "states": ["windows"], "lateness_us": 0, "ttl": "", "having": false}

A join has the columns of both inputs, `"columns": {"orders.id": "bigint"}`, and also their names in
the state, because a column that both inputs have gets another name there:

    "laid_out": [["id"], ["order", "paid"], true]     left, right; whether rows have a row order

Aggregates are stored by call: `total: sum(price) / count(*)` stores a sum and a count, whatever the
names and the other uses of these calls. These clauses are not part of a fingerprint, because no
state depends on them:

    select, readers          they apply after the state
    having                   only its condition; whether there is one is included, because a running
                             aggregate stores which of its rows were emitted
    late_to                  late rows are counted with and without a reader
    ttl                      only its length: an entry has its expiry with it, and a new row renews
                             it. Event time or wall clock is included
    trigger: every           the windows that changed since it fired are stored; without them it
                             only fires later. Emitted sessions are a state of their own
    trigger: count           of sessions, which always count their rows
    lateness                 only if it gets shorter: state that is too old is dropped. A longer
                             lateness would need windows that have been dropped already
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from headrace.core.expressions.typed import ColumnReference
from headrace.core.pipeline.default_values import format_duration
from headrace.core.pipeline.text import MASK
from headrace.core.plan import nodes
from headrace.core.plan.canonical import (
    apply_text,
    column_text,
    dedup_text,
    join_text,
    process_text,
    ranking_text,
    window_text,
)
from headrace.core.plan.formatting import format_changelog_suffix
from headrace.core.plan.layout import (
    get_input_streams,
    get_keyed_operation,
    get_two_input_operation,
)
from headrace.core.plan.nodes.matching import AsOfMatch, ChangelogMatch, ConnectedMatch, WindowMatch
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.plan.states import describe_call_state, get_read_columns, get_step_state
from headrace.core.types.data_types import Array, Field, Schema, quote_name

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateCall

STATE_ENTRIES = ("calls", "columns", "states", "having", "ttl")
"""The entries of a fingerprint that define the columns of the state."""


def build_fingerprints(plan: nodes.Plan) -> dict[str, dict[str, Any]]:
    """Return the fingerprints of all steps that have state, by step."""
    return {
        part.name: _build_fingerprint(part, plan)
        for part in plan
        if get_step_state(part, plan.key_groups)
    }


def _build_fingerprint(part: nodes.PlanPart, plan: nodes.Plan) -> dict[str, Any]:
    keyed, kept, join = (
        get_keyed_operation(part),
        get_step_state(part, plan.key_groups),
        get_two_input_operation(part),
    )
    if join is not None and kept is not None:
        ordered = isinstance(part, nodes.Step) and any(
            stream.has_row_order for stream in part.main_outputs
        )
        return _build_join_fingerprint(join, ordered) | {
            "states": [state.name for state in kept.states]
        }
    assert isinstance(part, nodes.Step) and keyed is not None and kept is not None
    window = None if isinstance(keyed, nodes.Dedup) else keyed.window
    ttl = "the wall clock" if keyed.ttl and keyed.ttl.uses_processing_time else "event time"
    return {
        "key": [[column_text(column), str(column.value.type)] for column in keyed.key],
        "window": window_text(window) if window else "",
        "does": _operation_text(keyed),
        **_state_content(part, keyed, plan),
        "states": [state.name for state in kept.states],
        "lateness_us": window.lateness_us if window else 0,
        "ttl": ttl if keyed.ttl else "",
        "having": isinstance(keyed, nodes.Aggregate) and not window and keyed.having is not None,
        **_emitted_columns(keyed),
    }


def _emitted_columns(keyed: nodes.KeyedOperation) -> dict[str, list[str]]:
    """Return the columns of an emitted row, which is stored so that it can be retracted."""
    if not isinstance(keyed, nodes.Aggregate) or keyed.changelog_key is None:
        return {}
    return {"shows": [*(each.name for each in keyed.key), *(each.name for each in keyed.columns)]}


def _build_join_fingerprint(join: nodes.Join, ordered: bool) -> dict[str, Any]:
    window = join.matching.window if isinstance(join.matching, WindowMatch) else None
    sides = (join.left, join.right)
    body = join.matching.body if isinstance(join.matching, ConnectedMatch) else None
    kept = () if body and not body.uses_event_time else sides
    return {
        "key": [[column_text(column), str(column.value.type)] for column in join.left.key],
        "window": window_text(window) if window else "",
        "does": join_text(join),
        "calls": process_state_content(body, ())["calls"] if body else {},
        "aggregates": {},
        "columns": {name: type for side in kept for name, type in _side_columns(side)},
        "lateness_us": window.lateness_us if window else 0,
        "ttl": _join_ttl(join),
        "having": False,
        "laid_out": [*([each.name for each in side.columns] for side in sides), ordered],
    }


def _side_columns(side: nodes.JoinSide) -> Iterator[tuple[str, str]]:
    """Yield the stored columns of an input, prefixed with its name.

    The name of a column in the join's output depends on the other input.
    """
    for each in side.columns:
        name = each.value.name if isinstance(each.value, ColumnReference) else each.name
        yield f"{side.name}.{name}", str(each.value.type)


def _join_ttl(join: nodes.Join) -> str:
    """Return the time by which rows expire, for joins whose ttl may have any length."""
    match join.matching:
        case AsOfMatch(ttl_us=int()):
            return "event time"
        case ChangelogMatch(ttl=Ttl(uses_processing_time=processing)):
            return "the wall clock" if processing else "event time"
    return ""


def _operation_text(keyed: nodes.KeyedOperation) -> str:
    match keyed:
        case nodes.Top(rows=rows, by=by):
            of = format_changelog_suffix(keyed.changelog_key)
            return f"top {rows} by {', '.join(map(ranking_text, by))}{of}"
        case nodes.Dedup():
            return dedup_text(keyed)
        case nodes.Apply():
            return apply_text(keyed)
        case nodes.Process(body=body):
            return process_text(body)
    return f"aggregate{format_changelog_suffix(keyed.changelog_key)}"


def _state_content(
    step: nodes.Step, keyed: nodes.KeyedOperation, plan: nodes.Plan
) -> dict[str, Any]:
    """Return the aggregate calls, the states of a class, or the columns of rows in the state."""
    if isinstance(keyed, nodes.Process):
        return process_state_content(keyed.body, keyed.columns)
    if isinstance(keyed, nodes.Top | nodes.Dedup):
        keeps_rows = isinstance(keyed, nodes.Top) or keyed.uses_event_time
        of_rows = get_stored_columns(step, keyed, plan) if keeps_rows else ()
        columns = {f.name: str(f.type) for f in of_rows}
        return {"calls": {}, "aggregates": {}, "columns": columns}
    if isinstance(keyed, nodes.Apply) or (keyed.window and keyed.window.evict):
        columns = {name: str(type) for name, type in get_read_columns(keyed).items()}
        return {"calls": {}, "aggregates": {}, "columns": columns}
    secret = {call.name for c in keyed.columns if MASK in c.text for call in c.expression.calls}

    def text(call: AggregateCall) -> str:
        shown = call.name.removeprefix("__")
        return f"{MASK} {sha256(shown.encode()).hexdigest()[:8]}" if call.name in secret else shown

    calls = {c.name: [text(call) for call in c.expression.calls] for c in keyed.columns}
    states = {
        text(call): describe_call_state(call) for c in keyed.columns for call in c.expression.calls
    }
    return {"calls": states, "aggregates": calls, "columns": {}}


def process_state_content(body: nodes.ProcessBody, rows: Iterable[Field]) -> dict[str, Any]:
    """Return the states of a user-defined class, and the columns of the rows that wait for it."""
    states = {
        name: {
            "of": [f"{'shared ' if said.shared else ''}{said.kind}", *map(str, said.types)],
            "keeps": [
                ["value", str(said.types[-1])],
                *([] if said.ttl_us is None else [["until", "bigint"]]),
                *([["by", "the wall clock"]] if said.processing else []),
            ],
        }
        for name, said in body.states
    }
    columns = {field.name: str(field.type) for field in rows} if body.uses_event_time else {}
    return {"calls": states, "aggregates": {}, "columns": columns}


def get_stored_columns(
    step: nodes.Step, keyed: nodes.Top | nodes.Dedup, plan: nodes.Plan
) -> Schema:
    """Return the columns of the rows that an operation stores unchanged."""
    schema = plan.streams[get_input_streams(step)[0]].schema
    for operation in step.operations[: step.operations.index(keyed)]:
        match operation:
            case nodes.Project(columns=columns):
                made = (Field(c.name, c.value.type, c.value.nullable) for c in columns)
                schema = Schema(tuple(made))
            case nodes.Explode(name, array):
                assert isinstance(array.type, Array)
                element = Field(name, array.type.element, True)
                schema = Schema((*(f for f in schema if f.name != name), element))
            case nodes.Map(returns=returns):
                schema = returns
    return Schema(tuple(field for field in schema if keyed.stores_column(field.name)))


def has_new_layout(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a state has other columns, or another order of columns."""
    if any(was.get(key) != now.get(key) for key in ("laid_out", "shows")):
        return True
    return any(
        list(was[key].items()) != list(now[key].items())
        if isinstance(now[key], dict)
        else was[key] != now[key]
        for key in STATE_ENTRIES
    )


def describe_fingerprint(kept: Mapping[str, Any]) -> str:
    """Return the meaning of a state as one line."""
    key = ", ".join(f"{text} {type}" for text, type in kept["key"])
    calls = [describe_call(text, call) for text, call in kept["calls"].items()]
    columns = [f"{quote_name(name)} {type}" for name, type in kept["columns"].items()]
    ttl = f"ttl by {kept['ttl']}" if kept["ttl"] else ""
    lateness = timedelta(microseconds=kept["lateness_us"])
    late = f"lateness {format_duration(lateness)}" if lateness else ""
    made = ", ".join([*calls, *columns])
    of = "; keeps" if "laid_out" in kept else " of"
    does = f"{kept['does']}{f'{of} {made}' if made else ''}"
    by = f"key {key}" if key else "no key"
    return "; ".join(filter(None, (by, kept["window"], late, does, ttl)))


def describe_call(text: str, call: Mapping[str, Any]) -> str:
    """Return a call with the types of its arguments.

    >>> describe_call("sum(price)", {"of": ["double"]}), describe_call("count(*)", {"of": []})
    ('sum(price) of double', 'count(*)')
    """
    return f"{text} of {', '.join(call['of'])}{describe_ttl(call)}" if call["of"] else text


def describe_ttl(call: Mapping[str, Any]) -> str:
    """Return the time by which a state of a class expires, as a suffix.

    >>> describe_ttl({"keeps": [["value", "bigint"], ["until", "bigint"], ["by", "the wall clock"]]})
    ' with ttl by the wall clock'
    """
    kept = dict(call.get("keeps", ()))
    if "until" not in kept and "by" not in kept:
        return ""
    return f"{' with ttl' if 'until' in kept else ''} by {kept.get('by', 'event time')}"
