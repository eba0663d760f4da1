"""The clause `match`: a pattern over the rows of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated

from headrace.core.pipeline.diagnostics import (
    RuleViolation,
    make_expected_error,
    make_value_error,
)
from headrace.core.pipeline.document_model import DocumentModel, Field, InvalidSection, SectionError
from headrace.core.pipeline.fields import Assignment, AssignmentsReading, Types
from headrace.core.pipeline.key_rules import EXCLUDES, KeyRule, check_rules, list_given_keys
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    Count,
    FieldReading,
    Flag,
    Name,
    StreamName,
    name,
    nonzero_duration,
    row_pattern,
)
from headrace.core.types.lazy_dataclass import dataclass

MATCH_KEY_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("conditions", "where", "variables"), "define"),
    **dict.fromkeys(("measures", "select", "columns"), "emit"),
    **dict.fromkeys(("after_match_skip", "skip", "after"), "after_match"),
    **dict.fromkeys(("window", "timeout", "time"), "within"),
    **dict.fromkeys(("patterns", "patterns_from", "broadcast"), "rules"),
    **dict.fromkeys(("timed_out_to", "timeout_to", "partial_to"), "incomplete_to"),
    **dict.fromkeys(("side_output", "late_output"), "late_to"),
}
SKIP_WORDS = ("past_last", "next", "none")
SKIP_KEYS = ("first", "last")
DEFAULT_MAX_RUNS = 10_000


@dataclass(frozen=True, slots=True)
class Skip:
    """The row from which the next match may start: a word, or a variable's first or last row."""

    rule: Text
    variable: Text | None = None


class SkipReading(FieldReading):
    """The reading of a word, or of a mapping of `first` or `last` to a variable."""

    def __init__(self) -> None:
        self.wanted = "past_last, next, {first: a}, {last: a} or none"
        of_variable = {
            "type": "object",
            "properties": {
                key: name.json | {"description": f"The {key} row of this variable."}
                for key in SKIP_KEYS
            },
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        }
        self.json = {"oneOf": [{"enum": [*SKIP_WORDS]}, of_variable]}

    def read(self, value: object) -> Skip:
        if isinstance(value, Text) and not value.secret and value in SKIP_WORDS:
            return Skip(value)
        if isinstance(value, Text) and value in SKIP_KEYS:
            raise make_value_error(value, f'wanted a variable with "{value}"', f"{{{value}: a}}")
        if not isinstance(value, dict) or len(value) != 1:
            raise make_expected_error(value, self.wanted)
        ((key, variable),) = value.items()
        if key not in SKIP_KEYS:
            raise make_expected_error(key, self.wanted)
        read = name.read(variable)
        assert isinstance(read, Text)
        return Skip(key, read)


class MatchClause(DocumentModel):
    """A pattern over the rows of each key, in the order of event time."""

    key_aliases = MATCH_KEY_ALIASES
    pattern: Annotated[Text | None, row_pattern] = Field(
        None,
        description="The pattern, as in `a b+ -> c`: variables in the order of their rows.",
    )
    rules: StreamName | None = Field(
        None,
        description="In place of `pattern`: a stream of [rules](match.md#rules), which add, "
        "replace and remove patterns while the job runs. A row has `rule` (its name), `pattern`, "
        "and, as far as needed, `define`, `emit`, `within`, `after_match` and `removed`.",
    )
    define: Annotated[
        tuple[Assignment, ...] | None,
        AssignmentsReading("variables and conditions, as in {big: amount > 100}", name),
    ] = Field(
        None,
        description="The condition of each variable, over the columns of a row and over the rows "
        "matched before it, as in `price > last(up.price)`; a variable without one fits any row.",
    )
    within: Annotated[timedelta | None, nonzero_duration] = Field(
        None,
        description="The longest time of a match: a row this long after the first is outside.",
    )
    after_match: Annotated[Skip | None, SkipReading()] = Field(
        None,
        description="Where the next match may start: after the last row (`past_last`, the "
        "default), after the first one (`next`), at the `first` or `last` row of a variable; "
        "`none` emits all matches.",
    )
    emit: Annotated[
        tuple[Assignment, ...] | None,
        AssignmentsReading("columns of a match, as in {n: count(a), at: first(a.at)}"),
    ] = Field(
        None,
        description="The columns of a match after the key, `match_start` and `match_end`: values "
        "of variables, as `a.price` (the last one), or `first`, `last`, `count`, `sum`, `min`, "
        "`max`, `avg` and `collect_list`, of a variable or of all rows.",
    )
    all_rows: Flag = Field(
        False,
        description="A row for each matched row: the key, `match_start`, `match_end`, `variable`, "
        "then the columns of the input; without `emit`.",
    )
    returns: Types | None = Field(
        None,
        description="With `rules`: the columns of a match and their types, as in `{n: bigint}`; "
        "`emit` of a rule has their values, and what it leaves out is null.",
    )
    incomplete_to: Name | None = Field(
        None,
        description="A stream for partial matches that ran out of time, or that the end of the "
        "input has ended: the key, `match_start`, `reached` (the last variable with rows), `rows` "
        "(how many), then the columns of `emit`.",
    )
    late_to: Name | None = Field(
        None,
        description="A stream for rows that arrive after the watermark has passed them, "
        "unchanged; by default they are counted and dropped.",
    )
    max_runs: Count = Field(
        DEFAULT_MAX_RUNS,
        description="The most partial matches of a key; `on_error` takes the row with which there "
        "would be more.",
    )

    def check_combination(self) -> None:
        """Check that there is a pattern, or rules that have them."""
        if self.pattern is None and self.rules is None:
            raise InvalidSection(SectionError("missing", ("pattern",), None))


MATCH_RULES = (
    KeyRule(
        "pattern, define, within, after_match, emit",
        EXCLUDES,
        "rules",
        "each rule has its own; returns has the columns of all",
    ),
    KeyRule("returns", "needs", "rules", "without rules, emit has the columns of a match"),
    KeyRule("returns", EXCLUDES, "all_rows", "all_rows emits the columns of each row"),
)


def check_match(match: MatchClause, inputs: Sequence[Text]) -> Iterator[RuleViolation]:
    """Yield the rules that the clause violates."""
    yield from check_rules(MATCH_RULES, list_given_keys(match), "match")
    if match.rules is not None and len(inputs) > 1:
        message = "match: a step reads one input in addition to the rules"
        yield RuleViolation(("from",), message, "unite them in an earlier step")
