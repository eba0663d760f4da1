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

RECORD = ROOT / "tests" / "core" / "expressions" / "spark_examples.json"
OUTCOMES = RECORD.with_name("spark_examples_outcomes.json")

HEAD = """
## Coverage of Spark

Spark documents each of its functions with examples. They are run by Spark {spark} (ANSI mode off,
time zone UTC) and by headrace, as one pipeline. Of {all} examples whose value does not depend on
the time, the session or a setting, {same} ({percent}) give Spark's value. None gives another value:
the others are refused when the pipeline is validated. A function is whole if all of its examples
give Spark's value, and partly there if some do.

| subject | functions | whole | partly | not there | examples with Spark's value |
|---|---|---|---|---|---|
"""


SYNONYMS = {"!=": "<>"}
"""Operators that the parser takes for another one, and that Spark has no examples of."""


@dataclass(slots=True)
class Subject:
    """The functions of one of Spark's groups by how far they are there, and counts of examples."""

    whole: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    same: int = 0
    compared: int = 0

    def add(self, name: str, same: int, compared: int) -> None:
        """Count a function, of whose compared examples that many are the same."""
        self.same += same
        self.compared += compared
        is_there = SYNONYMS.get(name, name) in ENTRIES_BY_NAME or same > 0
        fitting = self.whole if same == compared else self.partly
        (fitting if is_there else self.missing).append(name)

    @property
    def percentage(self) -> str:
        """The share of compared examples that are the same."""
        return f"{100 * self.same // self.compared} %" if self.compared else "-"


def coverage_section() -> str:
    """The whole section."""
    record = json.loads(RECORD.read_text("utf-8"))
    outcomes = json.loads(OUTCOMES.read_text("utf-8"))
    subjects, total = defaultdict[str, Subject](Subject), Subject()
    for name, function in record["functions"].items():
        same = len(outcomes[name]["same"])
        for each in (subjects[_subject_name(function["group"])], total):
            each.add(name, same, same + outcomes[name]["refused"])
    counted = sorted(subjects.items())
    spark = ".".join(record["spark"].split(".")[:2])
    head = HEAD.format(spark=spark, all=total.compared, same=total.same, percent=total.percentage)
    rows = [_row(name, each) for name, each in (*counted, ("all", total))]
    return "".join([head, *rows, *_list_missing(counted)])


def _subject_name(group: str) -> str:
    """Return the name of a group of Spark's as a word: `agg_funcs` are aggregates."""
    return {"agg_funcs": "aggregates"}.get(group, group.removesuffix("_funcs"))


def _row(name: str, subject: Subject) -> str:
    counts = [len(each) for each in (subject.whole, subject.partly, subject.missing)]
    cells = [name, sum(counts), *counts, f"{subject.same} of {subject.compared}"]
    cells[-1] = f"{cells[-1]} ({subject.percentage})"
    return f"| {' | '.join(map(str, cells))} |\n"


def _list_missing(subjects: Iterable[tuple[str, Subject]]) -> Iterator[str]:
    yield "\nNot there:\n\n"
    for name, subject in subjects:
        if subject.missing:
            yield f"- {name}: {', '.join(f'`{each}`' for each in subject.missing)}\n"
