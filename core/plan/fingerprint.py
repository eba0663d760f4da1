"""Fingerprints: the meaning of a step's state, as a value that can be compared, stored and shown.

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
    trigger: at_end          it decides which results are emitted, not what is stored
    lateness                 only if it gets shorter: state that is too old is dropped. A longer
                             lateness would need windows that have been dropped already
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.user_aggregates import select_user_calls
from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.expressions.typed import ColumnReference
from headrace.core.pipeline.default_values import format_duration
from headrace.core.pipeline.text import MASK
from headrace.core.plan import nodes
from headrace.core.plan.canonical import (
    apply_text,
    column_text,
    conversion_text,
    dedup_text,
    join_text,
    match_text,
    over_text,
    process_text,
    top_text,
    window_text,
)
from headrace.core.plan.formatting import format_changelog_suffix
from headrace.core.plan.layout import (
    get_keyed_operation,
    get_loop,
    get_stored_rows,
    get_two_input_operation,
)
from headrace.core.plan.nodes.matching import AsOfMatch, ChangelogMatch, ConnectedMatch, WindowMatch
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.plan.plan_cache import cache_by_plan
from headrace.core.plan.states import get_read_columns, get_step_state, get_stored_columns
from headrace.core.types.data_types import Field, quote_name
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateCall


@dataclass(frozen=True, slots=True)
class StoredCall:
    """The state of an aggregate call, or a state that a user-defined class declares."""

    types: tuple[str, ...]
    """The types of its arguments; for a state of a class, its kind and its types."""
    columns: tuple[tuple[str, str], ...]
    """The columns of the state, with their types."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StoredCall:
        """Parse the stored form."""
        return cls(tuple(document["of"]), _parse_pairs(document["keeps"]))

    def to_document(self) -> dict[str, object]:
        """Return the stored form."""
        return {"of": self.types, "keeps": self.columns}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The meaning of a step's state."""

    key: tuple[tuple[str, str], ...]
    """The expressions of the key, with their types."""
    window: str
    operation: str
    calls: Mapping[str, StoredCall]
    aggregates: Mapping[str, tuple[str, ...]]
    """The calls of each aggregate."""
    columns: Mapping[str, str]
    """The columns of rows that are stored unchanged, with their types."""
    states: tuple[str, ...]
    lateness_us: int
    ttl: str
    """The clock by which entries expire; empty if they do not."""
    has_having: bool
    emitted_columns: tuple[str, ...] = ()
    """The columns of an emitted row, which is stored so that it can be retracted."""
    join_columns: tuple[tuple[str, ...], tuple[str, ...], bool] | None = None
    """Of a join: the columns of both inputs, and whether rows have a row order."""

    @property
    def layout(self) -> tuple[object, ...]:
        """All that determines the columns of the state and their order."""
        entries = (tuple(self.calls.items()), tuple(self.columns.items()), self.states)
        return *entries, self.has_having, self.ttl, self.emitted_columns, self.join_columns

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Fingerprint:
        """Parse the stored form."""
        joined = document.get("laid_out")
        return cls(
            key=_parse_pairs(document["key"]),
            window=document["window"],
            operation=document["does"],
            calls={t: StoredCall.from_document(call) for t, call in document["calls"].items()},
            aggregates={name: tuple(calls) for name, calls in document["aggregates"].items()},
            columns=document["columns"],
            states=tuple(document["states"]),
            lateness_us=document["lateness_us"],
            ttl=document["ttl"],
            has_having=document["having"],
            emitted_columns=tuple(document.get("shows", ())),
            join_columns=joined and (tuple(joined[0]), tuple(joined[1]), joined[2]),
        )

    def to_document(self) -> dict[str, object]:
        """Return the stored form; the order of its keys is stored as well."""
        states = {"states": self.states}
        return {
            "key": self.key,
            "window": self.window,
            "does": self.operation,
            "calls": {text: call.to_document() for text, call in self.calls.items()},
            "aggregates": self.aggregates,
            "columns": self.columns,
            **({} if self.join_columns else states),
            "lateness_us": self.lateness_us,
            "ttl": self.ttl,
            "having": self.has_having,
            **({"shows": self.emitted_columns} if self.emitted_columns else {}),
            **({"laid_out": self.join_columns, **states} if self.join_columns else {}),
        }


def parse_fingerprint(step: str, fingerprints: Mapping[str, Any]) -> Fingerprint:
    """Parse the stored fingerprint of a step. Raises DamagedSnapshot if it is not complete."""
    try:
        return Fingerprint.from_document(fingerprints[step])
    except KeyError as error:
        problem = f"it lacks {error.args[0]!r}"
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        problem = str(error)
    raise DamagedSnapshot(
        f"the stored fingerprint of {step} cannot be read: {problem}",
        "it is damaged, or another version of headrace wrote it: use that version, or start from "
        "another checkpoint or savepoint",
    )


def _parse_pairs(pairs: Iterable[Iterable[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, type) for name, type in pairs)


@cache_by_plan
def build_fingerprints(plan: nodes.Plan) -> Mapping[str, Fingerprint]:
    """Return the fingerprints of all steps that have state, by step."""
    summaries = ((part, get_step_state(part, plan.key_groups)) for part in plan)
    return {
        part.name: _build_fingerprint(part, tuple(state.name for state in summary.states), plan)
        for part, summary in summaries
        if summary
    }


def _build_fingerprint(
    part: nodes.PlanPart, states: tuple[str, ...], plan: nodes.Plan
) -> Fingerprint:
    if get_loop(part) is not None:
        assert isinstance(part, nodes.Step)
        return _build_loop_fingerprint(part, states)
    if (join := get_two_input_operation(part)) is not None:
        ordered = isinstance(part, nodes.Step) and any(
            stream.has_row_order for stream in part.main_outputs
        )
        return _build_join_fingerprint(join, states, ordered)
    if (stored := get_stored_rows(part)) is not None:
        columns = _list_typed_columns(stored.columns)
        columns += ["row order"] if stored.has_row_order else []
        text = f"union with stored rows of {', '.join(columns)}"
        key = _describe_key(stored.key)
        return Fingerprint(key, "", text, {}, {}, {}, states, 0, "", has_having=False)
    keyed = get_keyed_operation(part)
    assert isinstance(part, nodes.Step) and keyed is not None
    window = None if isinstance(keyed, nodes.Dedup) else keyed.window
    calls, aggregates = _describe_calls(keyed)
    return Fingerprint(
        key=_describe_key(keyed.key),
        window=window_text(window) if window else "",
        operation=_operation_text(keyed),
        calls=calls,
        aggregates=aggregates,
        columns=_describe_rows(part, keyed, plan),
        states=states,
        lateness_us=window.lateness_us if window else 0,
        ttl=_ttl_text(keyed.ttl),
        has_having=isinstance(keyed, nodes.Aggregate)
        and not (window or keyed.emits_empty)
        and keyed.having is not None,
        emitted_columns=_list_emitted_columns(keyed),
    )


def _build_loop_fingerprint(step: nodes.Step, states: tuple[str, ...]) -> Fingerprint:
    """Return the fingerprint of a loop: the columns of the rows that go round."""
    out = step.outputs[0]
    columns = _list_typed_columns(out.schema)
    columns += ["event time"] if out.has_event_time else []
    columns += ["row order"] if out.has_row_order else []
    loop = get_loop(step)
    what = "rows" if loop is None or loop.table is None else "a table"
    if loop is not None and loop.table is not None and loop.table.delta is not None:
        what = f"a solution by {', '.join(map(quote_name, loop.table.key))}"
    text = f"iterate over {what} of {', '.join(columns)}"
    if loop is not None and loop.table is not None and loop.table.sends_tables:
        text += ", as a whole in each round"
    return Fingerprint((), "", text, {}, {}, {}, states, 0, "", has_having=False)


def _list_typed_columns(fields: Iterable[Field]) -> list[str]:
    return [f"{quote_name(field.name)} {field.type}" for field in fields]


def _build_join_fingerprint(
    join: nodes.Join, states: tuple[str, ...], ordered: bool
) -> Fingerprint:
    window = join.matching.window if isinstance(join.matching, WindowMatch) else None
    body = join.matching.body if isinstance(join.matching, ConnectedMatch) else None
    stored = () if body and not body.uses_event_time else (join.left, join.right)
    left, right = (tuple(each.name for each in side.columns) for side in (join.left, join.right))
    return Fingerprint(
        key=_describe_key(join.left.key),
        window=window_text(window) if window else "",
        operation=join_text(join),
        calls=_describe_class_states(body) if body else {},
        aggregates={},
        columns={name: type for side in stored for name, type in _side_columns(side)},
        states=states,
        lateness_us=window.lateness_us if window else 0,
        ttl=_join_ttl(join),
        has_having=False,
        join_columns=(left, right, ordered),
    )


def _describe_key(key: Iterable[nodes.ComputedColumn]) -> tuple[tuple[str, str], ...]:
    return tuple((column_text(column), str(column.value.type)) for column in key)


def _list_emitted_columns(keyed: nodes.KeyedOperation) -> tuple[str, ...]:
    """Return the columns of an emitted row, which is stored so that it can be retracted."""
    if not isinstance(keyed, nodes.Aggregate) or not (keyed.stores_rows or keyed.counts_values):
        return ()
    return (*(each.name for each in keyed.key), *(each.name for each in keyed.columns))


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
        case ChangelogMatch(ttl=ttl):
            return _ttl_text(ttl)
    return ""


def _ttl_text(ttl: Ttl | None) -> str:
    """Return the clock of a time to live."""
    return "" if ttl is None else "the wall clock" if ttl.uses_processing_time else "event time"


def _operation_text(keyed: nodes.KeyedOperation) -> str:
    match keyed:
        case nodes.Top() if keyed.time_column:
            keep = "last" if keyed.by[0].descending else "first"
            return f"dedup, keep {keep} by event time{_format_suffix(keyed)}"
        case nodes.Top():
            return f"{top_text(keyed)}{_format_suffix(keyed)}"
        case nodes.Dedup():
            return dedup_text(keyed)
        case nodes.Over():
            return over_text(keyed)
        case nodes.Match():
            return match_text(keyed)
        case nodes.ChangelogConversion():
            return conversion_text(keyed)
        case nodes.Apply():
            return apply_text(keyed)
        case nodes.Process(body=body):
            return process_text(body)
    return f"aggregate{_format_suffix(keyed)}"


def _format_suffix(keyed: nodes.Aggregate | nodes.Top) -> str:
    return format_changelog_suffix(keyed.changelog_key, reads_retractions=keyed.reads_retractions)


def _describe_rows(
    step: nodes.Step, keyed: nodes.KeyedOperation, plan: nodes.Plan
) -> dict[str, str]:
    """Return the columns of rows that are stored unchanged, with their types."""
    fields: Iterable[Field] = ()
    if isinstance(keyed, nodes.Process):
        fields = keyed.columns if keyed.body.uses_event_time else ()
    elif isinstance(keyed, nodes.ChangelogConversion):
        fields = keyed.columns
    elif isinstance(keyed, nodes.Top | nodes.Dedup | nodes.Over | nodes.Match):
        keeps_rows = not isinstance(keyed, nodes.Dedup) or keyed.uses_event_time
        fields = get_stored_columns(step, keyed, plan) if keeps_rows else ()
    elif isinstance(keyed, nodes.Apply) or keyed.has_rows_in_windows:
        return {name: str(type) for name, type in get_read_columns(keyed).items()}
    return {field.name: str(field.type) for field in fields}


def _describe_calls(
    keyed: nodes.KeyedOperation,
) -> tuple[dict[str, StoredCall], dict[str, tuple[str, ...]]]:
    """Return the aggregate calls or the states of a class, and the calls of each aggregate."""
    if isinstance(keyed, nodes.Process):
        return _describe_class_states(keyed.body), {}
    if not isinstance(keyed, nodes.Aggregate) or keyed.has_rows_in_windows:
        return {}, {}
    secret = {call.name for c in keyed.columns if MASK in c.text for call in c.expression.calls}

    def text(call: AggregateCall) -> str:
        shown = call.name.removeprefix("__")
        return f"{MASK} {sha256(shown.encode()).hexdigest()[:8]}" if call.name in secret else shown

    aggregates = {c.name: tuple(text(call) for call in c.expression.calls) for c in keyed.columns}
    every = (call for column in keyed.columns for call in column.expression.calls)
    calls = {text(call): _describe_call_state(call, keyed) for call in every}
    return calls, aggregates


def _describe_call_state(call: AggregateCall, keyed: nodes.Aggregate) -> StoredCall:
    columns = call.state_types(ORDER_TYPE).items()
    is_subtracted = keyed.reads_retractions and call.accumulator.is_subtractable
    retracts = is_subtracted and bool(select_user_calls([call]))
    return StoredCall(
        tuple(str(each.typed.type) for each in call.all_inputs),
        (
            *((name.removeprefix(f"{call.name}."), str(type)) for name, type in columns),
            *([("retract", "of its class")] if retracts else []),
        ),
    )


def _describe_class_states(body: nodes.ProcessBody) -> dict[str, StoredCall]:
    """Return the states that a user-defined class declares."""
    return {
        name: StoredCall(
            (f"{'shared ' if state.shared else ''}{state.kind}", *map(str, state.types)),
            (
                ("value", str(state.types[-1])),
                *(() if state.ttl_us is None else (("until", "bigint"),)),
                *((("by", "the wall clock"),) if state.processing else ()),
            ),
        )
        for name, state in body.states
    }


def describe_fingerprint(fingerprint: Fingerprint) -> str:
    """Return the meaning of a state as one line."""
    key = ", ".join(f"{text} {type}" for text, type in fingerprint.key)
    calls = [describe_call(text, call) for text, call in fingerprint.calls.items()]
    columns = [f"{quote_name(name)} {type}" for name, type in fingerprint.columns.items()]
    ttl = f"ttl by {fingerprint.ttl}" if fingerprint.ttl else ""
    lateness = timedelta(microseconds=fingerprint.lateness_us)
    late = f"lateness {format_duration(lateness)}" if lateness else ""
    made = ", ".join([*calls, *columns])
    of = "; keeps" if fingerprint.join_columns else " of"
    does = f"{fingerprint.operation}{f'{of} {made}' if made else ''}"
    by = f"key {key}" if key else "no key"
    return "; ".join(filter(None, (by, fingerprint.window, late, does, ttl)))


def describe_call(text: str, call: StoredCall) -> str:
    """Return a call with the types of its arguments.

    >>> describe_call("sum(price)", StoredCall(("double",), ()))
    'sum(price) of double'
    >>> describe_call("count(*)", StoredCall((), ()))
    'count(*)'
    """
    return f"{text} of {', '.join(call.types)}{describe_ttl(call)}" if call.types else text


def describe_ttl(call: StoredCall) -> str:
    """Return the time by which a state of a class expires, as a suffix.

    >>> columns = ("value", "bigint"), ("until", "bigint"), ("by", "the wall clock")
    >>> describe_ttl(StoredCall((), columns))
    ' with ttl by the wall clock'
    """
    columns = dict(call.columns)
    if "until" not in columns and "by" not in columns:
        return ""
    return f"{' with ttl' if 'until' in columns else ''} by {columns.get('by', 'event time')}"
