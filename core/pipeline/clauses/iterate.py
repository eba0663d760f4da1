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
    "incremental": "delta",
    **dict.fromkeys(("max_iterations", "iterations", "times", "limit"), "max_rounds"),
    **dict.fromkeys(("max_size", "max_bytes", "size"), "max_in_loop"),
}

DEFAULT_MAX_IN_LOOP = 2**30

rounds_reading = ScalarReading(
    "true, or the number of rounds of a bulk iteration",
    lambda text: whole_number(1, MAX_COUNT).parse(text) if text[:1].isdigit() else flag.parse(text),
    {"anyOf": [flag.json, whole_number(1, MAX_COUNT).json]},
)


class DeltaIteration(DocumentModel):
    """The two tables with which a delta iteration begins. They have the same columns."""

    solution: StreamName = Field(
        description="The rows of the result so far, at most one for each key. Steps inside read "
        "it as `step.solution`.",
    )
    workset: StreamName = Field(
        description="The rows that the first round reads as `step.workset`; later ones read the "
        "rows that the round before has changed.",
    )
    key: ColumnNames = Field(
        description="The columns by which a row of `body` replaces one of the solution.",
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
    delta: DeltaIteration | None = Field(
        None,
        description="In place of `from`: a table of which each round replaces some rows. The step "
        "emits all rows of the solution after the last round.",
    )
    body: StreamName | None = Field(
        None,
        description="With `bulk`: the last step inside, whose rows are the table of the next "
        "round. It reads `step.loop`, the table of the round, and has its columns. With `delta`: "
        "its rows replace those of the solution, and those that differ from them are the next "
        "work set.",
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
        "`max(abs(rank - before.rank)) < 1e-6`, after which no round begins. With `delta` it is "
        "over the rows that a round has changed, and `before` is the row that was replaced.",
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
        "`step.over`; if nothing reads that, it fails the job. With `delta`: the most rounds.",
    )
    max_in_loop: Size = Field(
        DEFAULT_MAX_IN_LOOP,
        description="The size of the rows that a subtask of the step may hold after they came "
        "back: those that wait, in memory and on disk, and those held for a checkpoint. With "
        "`bulk` and `delta`, the size of its tables in memory, and of the rows of a round that a "
        "subtask of a step inside holds. More fail the job.",
    )
    watermark: Annotated[Literal["hold", "pass"], choice_of("hold", "pass")] = Field(
        "hold",
        description="`hold`: event time passes only when the loop is empty, so that no row that "
        "leaves it is late. `pass`: it passes at once.",
    )

    @property
    def kind(self) -> Literal["from", "bulk", "delta"]:
        """The key that says what the loop is over."""
        if self.delta is not None:
            return "delta"
        return "from" if self.bulk is None else "bulk"

    @property
    def inputs(self) -> tuple[Text, ...]:
        """The streams whose rows enter."""
        if self.delta is not None:
            return tuple(dict.fromkeys((self.delta.solution, self.delta.workset)))
        return self.from_ or (() if self.bulk is None else (self.bulk,))

    @property
    def last_step(self) -> Text | None:
        """The stream whose rows come back."""
        return self.feedback if self.body is None else self.body

    @property
    def last_step_key(self) -> Literal["feedback", "body"]:
        """The key that names the stream whose rows come back."""
        return "feedback" if self.kind == "from" else "body"


_KIND_HINT = (
    "from: rows go round one by one; bulk: a table is computed again in each round; delta: each "
    "round replaces some rows of a table"
)


def check_iterate(iterate: Iterate) -> Iterator[RuleViolation]:
    """Yield the rules that the keys of `iterate` violate."""
    given = [("from", iterate.from_), ("bulk", iterate.bulk), ("delta", iterate.delta)]
    others = [key for key, value in given if value and key != iterate.kind]
    if others:
        message = f'iterate: "{iterate.kind}" does not go with "{others[0]}"'
        yield RuleViolation(("iterate", iterate.kind), message, _KIND_HINT)
    wanted = iterate.last_step_key
    for key, value in (("from", iterate.inputs), (wanted, iterate.last_step)):
        if not value:
            message = f'iterate: missing key "{key}"'
            hint = f"as in {{{iterate.kind}: ..., {wanted}: ...}}"
            yield RuleViolation(("iterate",), message, hint)
            return
    if iterate.kind != "from":
        yield from _check_table(iterate)
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


def _check_table(iterate: Iterate) -> Iterator[RuleViolation]:
    """Yield the rules that the keys of a loop over a table violate."""
    limit, count = "rounds", None if isinstance(iterate.rounds, bool) else iterate.rounds
    others: dict[str, object] = {"feedback": iterate.feedback, "max_rounds": iterate.max_rounds}
    hints = dict[str, str]()
    if iterate.kind == "delta":
        limit, count = "max_rounds", iterate.max_rounds
        others = {"feedback": iterate.feedback, "rounds": iterate.rounds, "key": iterate.key}
        hints = {"key": "it belongs inside delta", "rounds": "max_rounds says how many there are"}
    if count is None:
        message = f"iterate: {iterate.kind} needs {limit}: how many there are at most"
        yield RuleViolation(("iterate",), message, f"as in {limit}: 20")
    others["watermark"] = iterate.watermark == "pass"
    for key, value in others.items():
        if value:
            message = f'iterate: "{key}" does not go with "{iterate.kind}"'
            yield RuleViolation(("iterate", key), message, hints.get(key, ""))
