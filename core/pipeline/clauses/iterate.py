"""The clause `iterate`: the head of a loop, to which the rows of its `feedback` step come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import Names
from headrace.core.pipeline.values import (
    MAX_COUNT,
    Expression,
    Flag,
    Size,
    StreamName,
    choice_of,
    whole_number,
)

ITERATE_KEY_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("input", "source", "in"), "from"),
    **dict.fromkeys(("while", "exit", "stop", "when", "condition", "terminate"), "until"),
    **dict.fromkeys(("body", "back", "tail", "close_with"), "feedback"),
    **dict.fromkeys(("max_iterations", "iterations", "times", "limit"), "max_rounds"),
    **dict.fromkeys(("max_size", "max_bytes", "size"), "max_in_loop"),
}

DEFAULT_MAX_IN_LOOP = 2**30


class Iterate(DocumentModel):
    """The head of a loop over rows: `until` is asked of each row, when it enters and each time it
    comes back. A row of which it is true leaves the loop, as a row of the step; any other one goes
    round, as a row of `step.loop`. [Loops](loops.md) says more.
    """

    key_aliases = ITERATE_KEY_ALIASES
    from_: Names = Field(
        alias="from", description="The rows that enter: one name, or several with equal columns."
    )
    feedback: StreamName = Field(
        description="The last step inside, whose rows come back. It reads `step.loop`, directly or "
        "through other steps, and its columns are those of `step.loop`."
    )
    until: Expression | None = Field(
        None,
        description="The condition on which a row leaves; null counts as false. Only with "
        "`max_rounds` there may be none.",
    )
    rounds: Flag = Field(
        False,
        description="Adds the column `rounds` (bigint): how often a row has come back, 0 for a new "
        "one. The steps inside carry it like any other column.",
    )
    max_rounds: Annotated[int | None, whole_number(1, MAX_COUNT)] = Field(
        None,
        description="With `rounds`: a row that has come back so often and does not leave goes to "
        "`step.over`; if nothing reads that, it fails the job.",
    )
    max_in_loop: Size = Field(
        DEFAULT_MAX_IN_LOOP,
        description="The size of the rows that a subtask of the step may hold after they came "
        "back: those that wait, in memory and on disk, and those held for a checkpoint. More fail "
        "the job.",
    )
    watermark: Annotated[Literal["hold", "pass"], choice_of("hold", "pass")] = Field(
        "hold",
        description="`hold`: event time passes only when the loop is empty, so that no row that "
        "leaves it is late. `pass`: it passes at once.",
    )


def check_iterate(iterate: Iterate) -> Iterator[RuleViolation]:
    """Yield the rules that the keys of `iterate` violate."""
    if iterate.until is None and iterate.max_rounds is None:
        message = "iterate: no row would ever leave: wanted until or max_rounds"
        yield RuleViolation(("iterate",), message, "as in until: n > 10")
    if iterate.max_rounds is not None and not iterate.rounds:
        message = 'iterate: "max_rounds" needs "rounds"'
        hint = "rounds: true adds the column that counts, which the steps inside carry"
        yield RuleViolation(("iterate", "max_rounds"), message, hint)
