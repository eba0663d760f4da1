"""The clause `broadcast`: a small stream that every subtask of a step holds completely.

With `on` it is a join. With `process` its rows are passed to the class, in `on_rule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Literal

from headrace.core.pipeline.clauses.joins import InputReading, JoinInputKeys
from headrace.core.pipeline.clauses.keyed import Key
from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.key_rules import EXCLUDES, KeyRule, check_rules, list_given_keys
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Expression, Name, choice_of, nonzero_duration

BROADCAST_JOIN_TYPES = ("inner", "left", "semi", "anti")


class BroadcastKeep(DocumentModel):
    """The valid rows of the small stream: the latest of each key."""

    key: Key | None = Field(
        None,
        description="The key by which one row replaces another: columns, or named expressions. "
        "By default the key of a stream of changes; rows of other streams never replace each "
        "other.",
    )
    ttl: Annotated[timedelta | None, nonzero_duration] = Field(
        None,
        description="How long a row is valid, in event time; by default until it is replaced.",
    )


class Broadcast(DocumentModel):
    """A join of each row of `from` with the rows of a small stream, which every subtask holds.

    `on` may be any condition. Rows wait until the watermarks of both inputs have reached their
    time, and match the rows that are valid at that time. With `process` there is no `on`: the class
    receives the rows of the small stream in `on_rule`, and stores what it needs in states that are
    declared as `shared`.
    """

    rules: Annotated[JoinInputKeys, InputReading()] = Field(
        description="The name of the small stream; `{from: name, as: other}` gives it another name."
    )
    on: Expression | None = Field(
        None,
        description="The condition by which a row matches a row of the small stream, as in "
        "`rules.country = country and amount > rules.most`; not with `process`.",
    )
    type: Annotated[Literal["inner", "left", "semi", "anti"], choice_of(*BROADCAST_JOIN_TYPES)] = (
        Field("inner", description="The type of the join; the rows of `from` are its left input.")
    )
    keep: BroadcastKeep | None = Field(
        None, description="The rows of the small stream that are valid."
    )
    order: Annotated[Literal["event_time", "arrival"], choice_of("event_time", "arrival")] = Field(
        "event_time",
        description="`arrival`: rows do not wait, and match the rows that have arrived by then, "
        "which differ from run to run.",
    )
    late_to: Name | None = Field(
        None, description="A stream for rows of `from` that arrive too late, unchanged."
    )


PROCESS_HINTS = {
    "on": "on_rule receives every rule, and on_row decides which of them apply",
    "type": "rows are emitted with out(...)",
    "keep": 'on_rule decides what is stored, as in limits = shared(map_of("string", "double"))',
    "order": "it belongs to process: {order: ...}",
    "late_to": "it belongs to process: {late_to: ...}",
}
PROCESS_RULES = tuple(
    KeyRule(key, EXCLUDES, "process", hint) for key, hint in PROCESS_HINTS.items()
)


def check_broadcast(
    broadcast: Broadcast, inputs: Sequence[Text], *, in_process: bool
) -> Iterator[RuleViolation]:
    """Yield the rules that the clause violates, in itself and with the other clauses."""
    if len(inputs) > 1:
        message = "broadcast: a step reads one input in addition to the small stream"
        yield RuleViolation(("from",), message, "unite them in an earlier step")
    if in_process:
        given_keys = list_given_keys(broadcast) | {"process"}
        yield from check_rules(PROCESS_RULES, given_keys, "broadcast")
        return
    if broadcast.on is None:
        hint = "on: rules.country = country says which rows match; process: passes them to a class"
        yield RuleViolation(
            ("broadcast",), 'broadcast needs "on", or "process" in the same step', hint
        )
    if broadcast.order == "arrival":
        for at in (("late_to",), ("keep", "ttl")):
            value = (
                broadcast.late_to if at == ("late_to",) else broadcast.keep and broadcast.keep.ttl
            )
            if value is not None:
                message = f'broadcast: "{at[-1]}" goes by event time, but order is arrival'
                yield RuleViolation(("broadcast", *at), message, "leave out order: arrival")
