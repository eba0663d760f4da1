"""The metadata to read the states of a plan's steps, as plain data for a checkpoint.

    {"key": ["odd"], "timed": true,             names of the key's columns; do rows have event times
     "columns": {"total": "sum(price)"},        an aggregate as written; secrets are masked
     "users": {"p": {"call": "__w.py:P(price)", "keeps": [["n", "bigint"]]}},   user-defined ones
     "of": {"price": "double"},                 the columns that are read, or those of stored rows
     "top": {"rows": 3, "by": ["price desc"]},  null if the step is no top
     "process": {"seen": ["list", ["string"], false]},   the state of a class; null if there is none
     "weighted": true,                          only where it counts rows that are added and removed
     "values": {"values": [["price", "bigint"]]},   only where it counts values, by state
     "rules": {"rule": "string"},               only of a match with rules: the columns of these
     "over": {"previous": "lag(price)"},        only of columns over ordered rows: as written
     "changes": "bigint",                       only of the changes of a table: type of the sequence
    "conversion": "retract",                   only where the step converts changes: into this kind
     "join": {"type": "inner", ...},            of two inputs (`join_metadata`), replaces most
     "window": {"shape": {"tumble": {"size_us": 60000000, "offset_us": 0}}, "lateness_us": 0, ...}}

Only the display of state depends on it: it may change where the meaning does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.core.aggregates.user_aggregates import select_user_calls
from headrace.core.pipeline.text import MASK
from headrace.core.plan import nodes
from headrace.core.plan.layout import (
    get_keyed_operation,
    get_loop,
    get_stored_rows,
    get_two_input_operation,
)
from headrace.core.plan.nodes.matching import ConnectedMatch, RuleMatch, WindowMatch
from headrace.core.plan.nodes.windows import Window
from headrace.core.plan.plan_cache import cache_by_plan
from headrace.core.plan.states import get_read_columns, get_step_state, get_stored_columns
from headrace.core.state_reader.join_metadata import describe_join
from headrace.core.state_reader.window_shapes import encode_shape
from headrace.core.types.data_types import Field, Type
from headrace.core.types.elements import ORDER


@cache_by_plan
def build_reader_metadata(plan: nodes.Plan) -> dict[str, dict[str, Any]]:
    """Return the metadata of each stateful step."""
    return {
        part.name: _describe_step(part, plan)
        for part in plan
        if get_step_state(part, plan.key_groups)
    }


def _describe_step(step: nodes.PlanPart, plan: nodes.Plan) -> dict[str, Any]:
    assert isinstance(step, nodes.Step), "nothing else keeps anything"
    keyed, join = get_keyed_operation(step), get_two_input_operation(step)
    if join is not None and isinstance(join.matching, ConnectedMatch):
        return _describe_connected(join, join.matching.body)
    if join is not None and isinstance(join.matching, RuleMatch):
        return _describe_rules(join)
    if join is not None:
        return _describe_join_step(step, join, plan)
    if get_loop(step) is not None:
        return _describe_rows((), step.outputs[0].schema, timed=step.outputs[0].has_event_time)
    if (stored := get_stored_rows(step)) is not None:
        rows = _describe_rows(stored.key, stored.columns, timed=False)
        return {**rows, "conversion": "counted"}
    assert keyed is not None, "it keeps something"
    return _describe_keyed(step, keyed, plan)


def _describe_rows(
    key: Iterable[nodes.ComputedColumn], fields: Iterable[Field], *, timed: bool
) -> dict[str, Any]:
    return {
        "key": [column.name for column in key],
        "timed": timed,
        "columns": {},
        "of": {field.name: str(field.type) for field in fields},
        "top": None,
        "window": None,
        "process": None,
    }


def _describe_connected(join: nodes.Join, body: nodes.ProcessBody) -> dict[str, Any]:
    nothing: dict[str, Any] = {"columns": {}, "of": {}, "top": None, "window": None}
    key = [column.name for column in join.left.key]
    return {"key": key, "timed": join.has_event_time, **nothing, "process": _describe_states(body)}


def _describe_rules(join: nodes.Join) -> dict[str, Any]:
    sides = ({c.name: str(c.value.type) for c in side.columns} for side in (join.left, join.right))
    of, rules = sides
    nothing: dict[str, Any] = {"columns": {}, "top": None, "window": None, "process": None}
    key = [column.name for column in join.left.key]
    return {"key": key, "timed": True, **nothing, "of": of, "rules": rules}


def _describe_join_step(step: nodes.Step, join: nodes.Join, plan: nodes.Plan) -> dict[str, Any]:
    same = join.matching.window if isinstance(join.matching, WindowMatch) else None
    return {
        "key": [column.name for column in join.left.key],
        "join": describe_join(step, join, plan),
        "window": _describe_window(same) if same else None,
    }


def _describe_keyed(
    step: nodes.Step, keyed: nodes.KeyedOperation, plan: nodes.Plan
) -> dict[str, Any]:
    window = None if isinstance(keyed, nodes.Dedup) else keyed.window
    aggregates = keyed.columns if isinstance(keyed, nodes.Aggregate) else ()
    users = {c.name: call for c in aggregates if (call := _describe_user_aggregate(c)) is not None}
    metadata = {
        "key": [column.name for column in keyed.key],
        "timed": any(stream.has_event_time for stream in step.main_outputs),
        "columns": {c.name: str(c.text) for c in aggregates if c.name not in users},
        "users": users,
        "of": {name: str(type) for name, type in _list_input_columns(step, keyed, plan)},
        "top": _describe_top(keyed) if isinstance(keyed, nodes.Top) else None,
        "window": _describe_window(window) if window else None,
        "process": _describe_states(keyed.body) if isinstance(keyed, nodes.Process) else None,
    }
    if isinstance(keyed, nodes.Aggregate | nodes.Top) and keyed.reads_retractions:
        metadata["weighted"] = True
    if isinstance(keyed, nodes.Aggregate) and keyed.counts_values:
        metadata["values"] = {
            name: [[column, str(type)] for column, type in each.columns.items() if column != ORDER]
            for name, each in keyed.value_sets.items()
        }
    if isinstance(keyed, nodes.Aggregate | nodes.Top) and keyed.ttl and keyed.expires_pages:
        metadata["ttl_us"] = keyed.ttl.after_us
    if isinstance(keyed, nodes.Over):
        metadata["over"] = {column.name: str(column.text) for column in keyed.columns}
    if isinstance(keyed, nodes.Match):
        metadata["match"] = str(keyed.pattern)
    if isinstance(keyed, nodes.Dedup) and keyed.changes is not None:
        sequence = keyed.changes.sequence
        metadata["changes"] = None if sequence is None else str(sequence.value.type)
    if isinstance(keyed, nodes.ChangelogConversion):
        metadata["conversion"] = keyed.output
        if keyed.form is not None:
            metadata["form"] = keyed.form
    return metadata


def _list_input_columns(
    step: nodes.Step, keyed: nodes.KeyedOperation, plan: nodes.Plan
) -> Iterable[tuple[str, Type]]:
    """Return the columns that aggregates or user code read, or those of stored rows."""
    match keyed:
        case nodes.Aggregate() | nodes.Apply():
            return get_read_columns(keyed).items()
        case nodes.Top() | nodes.Over() | nodes.Match():
            fields: Iterable[Field] = get_stored_columns(step, keyed, plan)
        case nodes.Dedup():
            fields = get_stored_columns(step, keyed, plan) if keyed.uses_event_time else ()
        case nodes.ChangelogConversion():
            fields = keyed.columns
        case nodes.Process():
            fields = keyed.columns if keyed.body.uses_event_time else ()
    return ((field.name, field.type) for field in fields)


def _describe_top(keyed: nodes.Top) -> dict[str, Any]:
    described = {"rows": keyed.rows, "by": [str(ranking.text) for ranking in keyed.by]}
    return {**described, "ties": keyed.ties} if keyed.has_ties else described


def _describe_user_aggregate(column: nodes.AggregatedColumn) -> dict[str, Any] | None:
    """Describe the state of a user-defined aggregate; of one with a secret only its existence."""
    users = select_user_calls(column.expression.calls)
    if not users:
        return None
    if MASK in str(column.text):
        return {"call": str(column.text), "keeps": []}
    keeps = [[name, str(type)] for name, type in users[0].accumulator.state]
    return {"call": users[0].name, "keeps": keeps}


def _describe_states(body: nodes.ProcessBody) -> dict[str, Any]:
    """Describe each state, by name: its kind, its types, whether it expires, if it is shared."""
    return {
        name: [
            *(str(declared.kind), list(map(str, declared.types)), declared.ttl_us is not None),
            *(["shared"] if declared.shared else []),
        ]
        for name, declared in body.states
    }


def _describe_window(window: Window) -> dict[str, Any]:
    trigger: dict[str, Any] | None = None
    if window.trigger:
        trigger = {
            "every_us": window.trigger.every_us,
            "count": window.trigger.count,
            "processing": window.trigger.uses_processing_time,
        }
        trigger["python"] = None if window.trigger.code is None else str(window.trigger.code)
    evict = None
    if window.evict:
        python = None if window.evict.code is None else str(window.evict.code)
        evict = {"last": window.evict.last, "within_us": window.evict.within_us, "python": python}
    return {
        "shape": encode_shape(window.shape),
        "lateness_us": window.lateness_us,
        "processing": window.uses_processing_time,
        "trigger": trigger,
        "accumulate": window.keeps_rows,
        "evict": evict,
    }
