"""The clause `broadcast`: a small stream, kept whole beside every subtask of a step.

With `on` it is a join. Beside `process` it is what the class is handed in `on_rule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from headrace.core.pipeline.joins import Input, InputReading
from headrace.core.pipeline.keyed import Key
from headrace.core.pipeline.lengths import length
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.rule import Rule
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Expression, Name, choice

MEETS = ("inner", "left", "semi", "anti")


class Keep(Part):
    """Which rows of the small stream hold: of each key the latest."""

    key: Key | None = Field(
        None,
        description="What makes one row take the place of another: columns, or named expressions. "
        "By default the key of a stream of changes; of facts, none does.",
    )
    ttl: Annotated[timedelta | None, length] = Field(
        None, description="A row holds for so long in event time; by default until it is replaced."
    )


class Broadcast(Part):
    """Each row of `from` beside all rows of a small stream, which every subtask keeps.

    `on` may be any condition. Rows wait until both inputs have come to their time, and meet what
    held at that time. Beside `process` there is no `on`: its class is handed the rows of the small
    stream in `on_rule`, and keeps of them what it declares as `shared`.
    """

    rules: Annotated[Input, InputReading()] = Field(
        description="The small stream, by its name; `{from: name, as: other}` gives it another."
    )
    on: Expression | None = Field(
        None,
        description="What must be true of a row and one of the small stream, as in "
        "`rules.country = country and amount > rules.most`; not beside `process`.",
    )
    type: Annotated[Literal["inner", "left", "semi", "anti"], choice(*MEETS)] = Field(
        "inner", description="Which rows go out: as those of the left input of a `join`."
    )
    keep: Keep | None = Field(None, description="Which rows of the small stream hold.")
    order: Annotated[Literal["event_time", "arrival"], choice("event_time", "arrival")] = Field(
        "event_time",
        description="`arrival`: rows do not wait, and meet what has come by then, which differs "
        "from run to run.",
    )
    late_to: Name | None = Field(
        None, description="A stream for rows of `from` that come too late, as they came."
    )


IN_PROCESS = {
    "on": "on_rule is handed every rule: on_row says which of them it goes by",
    "type": "what goes out is handed to out(...)",
    "keep": 'on_rule says what is kept, as in limits = shared(map_of("string", "double"))',
    "order": "it belongs to process: {order: ...}",
    "late_to": "it belongs to process: {late_to: ...}",
}


def check(broadcast: Broadcast, inputs: Sequence[Text], *, in_process: bool) -> Iterator[Rule]:
    """What does not go together, in the clause itself and with what the step has."""
    if len(inputs) > 1:
        message = "broadcast: a step reads one input beside the small stream"
        yield Rule(("from",), message, "unite them in a step before")
    if in_process:
        for key in IN_PROCESS.keys() & broadcast.model_fields_set:
            message = f'broadcast: "{key}" stands beside "process"'
            yield Rule(("broadcast", key), message, IN_PROCESS[key])
        return
    if broadcast.on is None:
        hint = "on: rules.country = country says which rows meet; process: hands them to a class"
        yield Rule(("broadcast",), 'broadcast needs "on", or "process" beside it', hint)
    if broadcast.order == "arrival":
        for at in (("late_to",), ("keep", "ttl")):
            value = (
                broadcast.late_to if at == ("late_to",) else broadcast.keep and broadcast.keep.ttl
            )
            if value is not None:
                message = f'broadcast: "{at[-1]}" goes by event time, and order is arrival'
                yield Rule(("broadcast", *at), message, "leave out order: arrival")
