"""The part of docs/functions.md that counts Spark's functions which an expression can call.

It counts the record of Spark's own examples, and what they give here, which
tests/core/expressions/test_spark_examples.py holds to be true.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from docs.snippets import ROOT
from headrace.core.aggregates.catalog import ENTRIES_BY_NAME
from headrace.core.expressions.refused_functions import REFUSED_FAMILIES, find_refused_family

RECORD = ROOT / "tests" / "core" / "expressions" / "spark_examples.json"
OUTCOMES = RECORD.with_name("spark_examples_outcomes.json")

HEAD = """
## Coverage of Spark

Spark documents each of its functions with examples. They are run by Spark {spark} (ANSI mode off,
time zone UTC) and by headrace, as one pipeline. Of {all} examples whose value does not depend on
the time, the session or a setting, {same} ({percent}) give Spark's value. (Since no
column has the type void, a column of a table that is NULL in every row is given the type to which
Spark casts the argument, and a result of type void is cast to string.) None gives another value:
the others are refused when the pipeline is validated. {refused} functions are refused on purpose,
as listed below; without their examples, {outside} give Spark's value: {scalars} of scalar
functions and {aggregates} of aggregates. A function is whole if all of its examples give Spark's
value, and partly there if some do.

| subject | functions | whole | partly | not there | refused | Spark's value | without the refused |
|---|---|---|---|---|---|---|---|
"""

REFUSED = """
Refused on purpose:

| subject | functions | reason | instead |
|---|---|---|---|
"""


SYNONYMS = {"!=": "<>"}
"""Operators that the parser takes for another one, and that Spark has no examples of."""


@dataclass(slots=True)
class Subject:
    """The functions of one of Spark's groups by how far they are there, and counts of examples."""

    whole: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """The functions that are refused on purpose."""
    same: int = 0
    compared: int = 0
    compared_on_purpose: int = 0
    """The compared examples of functions that are refused on purpose."""

    def add(self, name: str, same: int, compared: int) -> None:
        """Count a function, of whose compared examples that many are the same."""
        self.same += same
        self.compared += compared
        if find_refused_family(name) and not same:
            self.refused.append(name)
            self.compared_on_purpose += compared
            return
        is_there = SYNONYMS.get(name, name) in ENTRIES_BY_NAME or same > 0
        fitting = self.whole if same == compared else self.partly
        (fitting if is_there else self.missing).append(name)

    @property
    def percentage(self) -> str:
        """The share of compared examples that are the same."""
        return _format_share(self.same, self.compared)

    @property
    def percentage_outside(self) -> str:
        """The share without the examples of functions that are refused on purpose."""
        return _format_share(self.same, self.compared - self.compared_on_purpose)


def _format_share(part: int, all: int) -> str:
    return f"{100 * part // all} %" if all else "-"


def coverage_section() -> str:
    """The whole section."""
    record = json.loads(RECORD.read_text("utf-8"))
    outcomes = json.loads(OUTCOMES.read_text("utf-8"))
    subjects, total = defaultdict[str, Subject](Subject), Subject()
    scalars, aggregates = Subject(), Subject()
    for name, function in record["functions"].items():
        same = len(outcomes[name]["same"])
        kind = aggregates if function["group"] == "agg_funcs" else scalars
        for each in (subjects[_subject_name(function["group"])], total, kind):
            each.add(name, same, same + outcomes[name]["refused"])
    counted = sorted(subjects.items())
    spark = ".".join(record["spark"].split(".")[:2])
    head = HEAD.format(
        spark=spark,
        all=total.compared,
        same=total.same,
        percent=total.percentage,
        refused=len(total.refused),
        outside=total.percentage_outside,
        scalars=scalars.percentage_outside,
        aggregates=aggregates.percentage_outside,
    )
    rows = [_row(name, each) for name, each in (*counted, ("all", total))]
    return "".join([head, *rows, *_list_missing(counted), REFUSED, *_list_refused(total.refused)])


def _subject_name(group: str) -> str:
    """Return the name of a group of Spark's as a word: `agg_funcs` are aggregates."""
    return {"agg_funcs": "aggregates"}.get(group, group.removesuffix("_funcs"))


def _row(name: str, subject: Subject) -> str:
    lists = (subject.whole, subject.partly, subject.missing, subject.refused)
    counts = [len(each) for each in lists]
    share = f"{subject.same} of {subject.compared} ({subject.percentage})"
    cells = [name, sum(counts), *counts, share, subject.percentage_outside]
    return f"| {' | '.join(map(str, cells))} |\n"


def _list_missing(subjects: Iterable[tuple[str, Subject]]) -> Iterator[str]:
    yield "\nNot there:\n\n"
    for name, subject in subjects:
        if subject.missing:
            yield f"- {name}: {', '.join(f'`{each}`' for each in subject.missing)}\n"


def _list_refused(names: Iterable[str]) -> Iterator[str]:
    for family in REFUSED_FAMILIES:
        of_family = [f"`{name}`" for name in names if find_refused_family(name) is family]
        cells = (family.subject, ", ".join(of_family), family.reason, family.way_out)
        if of_family:
            yield f"| {' | '.join(cells)} |\n"
