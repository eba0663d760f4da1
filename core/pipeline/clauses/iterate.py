"""The clause `iterate`: the head of a loop, to which the rows of its `feedback` step come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import ColumnNames, Names
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    MAX_COUNT,
    Expression,
    ScalarReading,
    Size,
    StreamName,
    choice_of,
    flag,
    whole_number,
)

ITERATE_KEY_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("input", "source", "in"), "from"),
    **dict.fromkeys(("while", "exit", "stop", "when", "condition", "terminate"), "until"),
    **dict.fromkeys(("back", "tail", "close_with"), "feedback"),
    **dict.fromkeys(("table", "start"), "bulk"),
    **dict.fromkeys(("max_iterations", "iterations", "times", "limit"), "max_rounds"),
    **dict.fromkeys(("max_size", "max_bytes", "size"), "max_in_loop"),
}

DEFAULT_MAX_IN_LOOP = 2**30

rounds_reading = ScalarReading(
    "true, or the number of rounds of a bulk iteration",
    lambda text: whole_number(1, MAX_COUNT).parse(text) if text[:1].isdigit() else flag.parse(text),
    {"anyOf": [flag.json, whole_number(1, MAX_COUNT).json]},
)


class Iterate(DocumentModel):
    """The head of a loop over rows: `until` is asked of each row, when it enters and each time it
    comes back. A row of which it is true leaves the loop, as a row of the step; any other one goes
    round, as a row of `step.loop`. [Loops](loops.md) says more.
    """

    key_aliases = ITERATE_KEY_ALIASES
    usual_keys = "from", "feedback"
    from_: Names | None = Field(
        None,
        alias="from",
        description="The rows that enter: one name, or several with equal columns.",
    )
    feedback: StreamName | None = Field(
        None,
        description="With `from`: the last step inside, whose rows come back. It reads "
        "`step.loop`, directly or through other steps, and its columns are those of `step.loop`.",
    )
    bulk: StreamName | None = Field(
        None,
        description="In place of `from`: the rows of a table, which `body` computes in each "
        "round. The step emits the rows of the last round.",
    )
    body: StreamName | None = Field(
        None,
        description="With `bulk`: the last step inside, whose rows are the table of the next "
        "round. It reads `step.loop`, the table of the round, and has its columns.",
    )
    key: ColumnNames | None = Field(
        None,
        description="With `bulk`: the columns by which `before.column` in `until` is found in the "
        "round before.",
    )
    until: Expression | None = Field(
        None,
        description="The condition on which a row leaves; null counts as false. Only with "
        "`max_rounds` there may be none. With `bulk` a condition over all rows, as in "
        "`max(abs(rank - before.rank)) < 1e-6`, after which no round begins.",
    )
    rounds: Annotated[bool | int, rounds_reading] = Field(
        False,
        description="`true` adds the column `rounds` (bigint): how often a row has come back, 0 "
        "for a new one. The steps inside carry it like any other column. With `bulk`: the most "
        "rounds.",
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

    @property
    def inputs(self) -> tuple[Text, ...]:
        """The streams whose rows enter."""
        return self.from_ or (() if self.bulk is None else (self.bulk,))

    @property
    def last_step(self) -> Text | None:
        """The stream whose rows come back."""
        return self.feedback if self.body is None else self.body


def check_iterate(iterate: Iterate) -> Iterator[RuleViolation]:
    """Yield the rules that the keys of `iterate` violate."""
    kind, wanted = ("from", "feedback") if iterate.bulk is None else ("bulk", "body")
    if iterate.bulk is not None and iterate.from_ is not None:
        hint = "from: rows go round one by one; bulk: a table is computed again in each round"
        yield RuleViolation(("iterate", "bulk"), 'iterate: "bulk" does not go with "from"', hint)
    for key, value in (("from", iterate.inputs), (wanted, iterate.last_step)):
        if not value:
            message = f'iterate: missing key "{key}"'
            yield RuleViolation(("iterate",), message, f"as in {{{kind}: ..., {wanted}: ...}}")
            return
    if iterate.bulk is not None:
        yield from _check_bulk(iterate)
        return
    for key in ("body", "key"):
        if getattr(iterate, key) is not None:
            yield RuleViolation(("iterate", key), f'iterate: "{key}" needs "bulk"')
    if iterate.rounds is not True and iterate.rounds is not False:
        message, hint = "iterate.rounds: a number needs bulk", "max_rounds limits how often"
        yield RuleViolation(("iterate", "rounds"), message, hint)
    if iterate.until is None and iterate.max_rounds is None:
        message = "iterate: no row would ever leave: wanted until or max_rounds"
        yield RuleViolation(("iterate",), message, "as in until: n > 10")
    if iterate.max_rounds is not None and not iterate.rounds:
        message = 'iterate: "max_rounds" needs "rounds"'
        hint = "rounds: true adds the column that counts, which the steps inside carry"
        yield RuleViolation(("iterate", "max_rounds"), message, hint)


def _check_bulk(iterate: Iterate) -> Iterator[RuleViolation]:
    """Yield the rules that the keys of a loop over a table violate."""
    if iterate.rounds is True or not iterate.rounds:
        message = "iterate: bulk needs rounds: how many there are at most"
        yield RuleViolation(("iterate",), message, "as in rounds: 20")
    others = {
        "feedback": iterate.feedback,
        "max_rounds": iterate.max_rounds,
        "watermark": iterate.watermark == "pass",
    }
    for key, value in others.items():
        if value:
            yield RuleViolation(("iterate", key), f'iterate: "{key}" does not go with "bulk"')
