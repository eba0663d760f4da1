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

from headrace.core.expressions.typed import Column
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
from headrace.core.plan.layout import inputs, keyed_operation, two_sided
from headrace.core.plan.matching import AsOf, Changing, Connected, SameWindow
from headrace.core.plan.states import call_state, kept_by, read_of_rows
from headrace.core.plan.windows import Ttl
from headrace.core.plan.wording import changes_said, duration_said
from headrace.core.types import Array, Field, Schema, quoted

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateCall

IN_STATE = ("calls", "columns", "states", "having", "ttl")
"""The entries of a fingerprint that define the columns of the state."""


def fingerprints(plan: nodes.Plan) -> dict[str, dict[str, Any]]:
    """Return the fingerprints of all steps that have state, by step."""
    return {part.name: _of(part, plan) for part in plan if kept_by(part, plan.key_groups)}


def _of(part: nodes.PlanPart, plan: nodes.Plan) -> dict[str, Any]:
    keyed, kept, join = keyed_operation(part), kept_by(part, plan.key_groups), two_sided(part)
    if join is not None and kept is not None:
        ordered = isinstance(part, nodes.Step) and any(stream.ordered for stream in part.rows)
        return _of_join(join, ordered) | {"states": [state.name for state in kept.states]}
    assert isinstance(part, nodes.Step) and keyed is not None and kept is not None
    window = None if isinstance(keyed, nodes.Dedup) else keyed.window
    ttl = "the wall clock" if keyed.ttl and keyed.ttl.processing else "event time"
    return {
        "key": [[column_text(column), str(column.value.type)] for column in keyed.key],
        "window": window_text(window) if window else "",
        "does": _does(keyed),
        **_made_of(part, keyed, plan),
        "states": [state.name for state in kept.states],
        "lateness_us": window.lateness_us if window else 0,
        "ttl": ttl if keyed.ttl else "",
        "having": isinstance(keyed, nodes.Aggregate) and not window and keyed.having is not None,
        **_shown(keyed),
    }


def _shown(keyed: nodes.Keyed) -> dict[str, list[str]]:
    """Return the columns of an emitted row, which is stored so that it can be retracted."""
    if not isinstance(keyed, nodes.Aggregate) or keyed.changes is None:
        return {}
    return {"shows": [*(each.name for each in keyed.key), *(each.name for each in keyed.columns)]}


def _of_join(join: nodes.Join, ordered: bool) -> dict[str, Any]:
    window = join.matching.window if isinstance(join.matching, SameWindow) else None
    sides = (join.left, join.right)
    body = join.matching.body if isinstance(join.matching, Connected) else None
    kept = () if body and not body.in_time else sides
    return {
        "key": [[column_text(column), str(column.value.type)] for column in join.left.key],
        "window": window_text(window) if window else "",
        "does": join_text(join),
        "calls": states_of(body, ())["calls"] if body else {},
        "aggregates": {},
        "columns": {name: type for side in kept for name, type in _columns_of(side)},
        "lateness_us": window.lateness_us if window else 0,
        "ttl": _ttl_of_join(join),
        "having": False,
        "laid_out": [*([each.name for each in side.columns] for side in sides), ordered],
    }


def _columns_of(side: nodes.Side) -> Iterator[tuple[str, str]]:
    """Yield the stored columns of an input, prefixed with its name.

    The name of a column in the join's output depends on the other input.
    """
    for each in side.columns:
        name = each.value.name if isinstance(each.value, Column) else each.name
        yield f"{side.name}.{name}", str(each.value.type)


def _ttl_of_join(join: nodes.Join) -> str:
    """Return the time by which rows expire, for joins whose ttl may have any length."""
    match join.matching:
        case AsOf(ttl_us=int()):
            return "event time"
        case Changing(ttl=Ttl(processing=processing)):
            return "the wall clock" if processing else "event time"
    return ""


def _does(keyed: nodes.Keyed) -> str:
    match keyed:
        case nodes.Top(rows=rows, by=by):
            of = changes_said(keyed.changes)
            return f"top {rows} by {', '.join(map(ranking_text, by))}{of}"
        case nodes.Dedup():
            return dedup_text(keyed)
        case nodes.Apply():
            return apply_text(keyed)
        case nodes.Process(body=body):
            return process_text(body)
    return f"aggregate{changes_said(keyed.changes)}"


def _made_of(step: nodes.Step, keyed: nodes.Keyed, plan: nodes.Plan) -> dict[str, Any]:
    """Return the aggregate calls, the states of a class, or the columns of rows in the state."""
    if isinstance(keyed, nodes.Process):
        return states_of(keyed.body, keyed.columns)
    if isinstance(keyed, nodes.Top | nodes.Dedup):
        keeps_rows = isinstance(keyed, nodes.Top) or keyed.in_time
        of_rows = kept_of_rows(step, keyed, plan) if keeps_rows else ()
        columns = {f.name: str(f.type) for f in of_rows}
        return {"calls": {}, "aggregates": {}, "columns": columns}
    if isinstance(keyed, nodes.Apply) or (keyed.window and keyed.window.evict):
        columns = {name: str(type) for name, type in read_of_rows(keyed).items()}
        return {"calls": {}, "aggregates": {}, "columns": columns}
    secret = {call.name for c in keyed.columns if MASK in c.text for call in c.expression.calls}

    def text(call: AggregateCall) -> str:
        shown = call.name.removeprefix("__")
        return f"{MASK} {sha256(shown.encode()).hexdigest()[:8]}" if call.name in secret else shown

    calls = {c.name: [text(call) for call in c.expression.calls] for c in keyed.columns}
    states = {text(call): call_state(call) for c in keyed.columns for call in c.expression.calls}
    return {"calls": states, "aggregates": calls, "columns": {}}


def states_of(body: nodes.Body, rows: Iterable[Field]) -> dict[str, Any]:
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
    columns = {field.name: str(field.type) for field in rows} if body.in_time else {}
    return {"calls": states, "aggregates": {}, "columns": columns}


def kept_of_rows(step: nodes.Step, keyed: nodes.Top | nodes.Dedup, plan: nodes.Plan) -> Schema:
    """Return the columns of the rows that an operation stores unchanged."""
    schema = plan.streams[inputs(step)[0]].schema
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
    return Schema(tuple(field for field in schema if keyed.keeps(field.name)))


def is_laid_out_anew(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a state has other columns, or another order of columns."""
    if any(was.get(key) != now.get(key) for key in ("laid_out", "shows")):
        return True
    return any(
        list(was[key].items()) != list(now[key].items())
        if isinstance(now[key], dict)
        else was[key] != now[key]
        for key in IN_STATE
    )


def said(kept: Mapping[str, Any]) -> str:
    """Return the meaning of a state as one line."""
    key = ", ".join(f"{text} {type}" for text, type in kept["key"])
    calls = [call_said(text, call) for text, call in kept["calls"].items()]
    columns = [f"{quoted(name)} {type}" for name, type in kept["columns"].items()]
    ttl = f"ttl by {kept['ttl']}" if kept["ttl"] else ""
    lateness = timedelta(microseconds=kept["lateness_us"])
    late = f"lateness {duration_said(lateness)}" if lateness else ""
    made = ", ".join([*calls, *columns])
    of = "; keeps" if "laid_out" in kept else " of"
    does = f"{kept['does']}{f'{of} {made}' if made else ''}"
    by = f"key {key}" if key else "no key"
    return "; ".join(filter(None, (by, kept["window"], late, does, ttl)))


def call_said(text: str, call: Mapping[str, Any]) -> str:
    """Return a call with the types of its arguments.

    >>> call_said("sum(price)", {"of": ["double"]}), call_said("count(*)", {"of": []})
    ('sum(price) of double', 'count(*)')
    """
    return f"{text} of {', '.join(call['of'])}{ttl_said(call)}" if call["of"] else text


def ttl_said(call: Mapping[str, Any]) -> str:
    """Return the time by which a state of a class expires, as a suffix.

    >>> ttl_said({"keeps": [["value", "bigint"], ["until", "bigint"], ["by", "the wall clock"]]})
    ' with ttl by the wall clock'
    """
    kept = dict(call.get("keeps", ()))
    if "until" not in kept and "by" not in kept:
        return ""
    return f"{' with ttl' if 'until' in kept else ''} by {kept.get('by', 'event time')}"
