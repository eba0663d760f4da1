"""Random `match_recognize` over the rows of `random_pipelines`, and the rows that it means.

A value is a text and a function of the matched rows, of which the last one is the tested row in a
condition. So what SQL means is computed here, and not by way of the clause `match`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from hypothesis import strategies as st

from headrace.core.api.window_classes import EPOCH
from headrace.core.patterns.automaton import build_automaton
from headrace.core.patterns.parser import parse_pattern
from headrace.core.patterns.pattern import Pattern
from headrace.core.plan.nodes.matches import SKIP_RULES, AfterMatch
from headrace.core.testing.reference.match_finder import MatchFinder, Taken
from tests.support.reference.random_patterns import draw_after, draw_within, patterns

Row: TypeAlias = dict[str, Any]
Matched: TypeAlias = Sequence[tuple[str, Row]]
"""Rows with their variables."""
Compute: TypeAlias = Callable[[Matched], Any]
Value: TypeAlias = tuple[str, Compute]

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
}
AGGREGATES: dict[str, Callable[[list[int]], Any]] = {
    "sum": lambda values: sum(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "avg": lambda values: sum(values) / len(values) if values else None,
    "count": len,
}
"""Aggregates of the values that are not null."""
PARTITIONS = {"": (), "partition by k": ("k",), "partition by k, s": ("k", "s")}
"""By clause: the columns of the key."""
SKIPS = {
    "past_last": "past last row",
    "next": "to next row",
    "first": "to first {}",
    "last": "to last {}",
}


@dataclass(frozen=True)
class MatchTable:
    """A `match_recognize`, and what it means."""

    pattern: Pattern
    conditions: dict[str, Value]
    measures: dict[str, Value]
    """By name; none: all rows of a match."""
    partition: str
    within_s: int | None
    after: AfterMatch

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the query."""
        others = tuple(self.measures) or ("kind", "at", "v", "x")
        return (*PARTITIONS[self.partition], *others)

    def write(self) -> str:
        """Return the text of a query."""
        measures = [f"{text} as {name}" for name, (text, _) in self.measures.items()]
        define = [f"{name} as {text}" for name, (text, _) in self.conditions.items()]
        skip = SKIPS[self.after.rule].format(self.after.variable)
        within = "" if self.within_s is None else f"within interval '{self.within_s}' second"
        return (
            f"select {', '.join(self.names)} from rows match_recognize ({self.partition} "
            f"order by at measures {', '.join(measures) or 'classifier() as kind'} "
            f"{'one row' if measures else 'all rows'} per match after match skip {skip} "
            f"pattern ({self.pattern}) {within} define {', '.join(define)}) as m"
        )

    def find_rows(self, rows: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the query over rows in the order of their source."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in sorted(rows, key=lambda each: each["at"]):
            key = tuple(row[name] for name in PARTITIONS[self.partition])
            groups.setdefault(key, []).append(row)
        for key, members in groups.items():
            for matched in self._find_matches(members):
                if self.measures:
                    yield (*key, *(compute(matched) for _, compute in self.measures.values()))
                    continue
                for variable, row in matched:
                    yield (*key, variable, row["at"], row["v"], row["x"])

    def _find_matches(self, rows: Sequence[Row]) -> Iterator[Matched]:
        def test(variable: str, at: int, taken: Taken) -> bool:
            if variable not in self.conditions:
                return True
            matched = [(name, rows[place]) for name, place in (*taken, (variable, at))]
            return bool(self.conditions[variable][1](matched))

        times = [(row["at"] - EPOCH) // timedelta(microseconds=1) for row in rows]
        within_us = None if self.within_s is None else self.within_s * 1_000_000
        for found in MatchFinder(self.pattern, times, within_us, self.after, test).find():
            if found.is_complete:
                yield [(name, rows[place]) for name, place in found.taken]


@dataclass(frozen=True)
class Readable:
    """The rows that an expression may read: those of variables, or all."""

    variables: Sequence[str]
    single: str | None = None
    """The variable of which there is the tested row only."""
    has_previous: bool = False
    """Whether the row before the tested one is a matched one."""

    def draw_value(self, draw: st.DrawFn) -> Value:
        """Draw a value over the rows of a variable, or over all rows."""
        variable = draw(st.sampled_from([*self.variables, None]))
        column = "v" if variable is None else f"{variable}.v"

        def read(rows: Matched) -> list[int | None]:
            return [row["v"] for name, row in rows if variable in (None, name)]

        kinds = [*("last", "last", "last", "first", "all"), *AGGREGATES]
        kind = draw(st.sampled_from(kinds + ["prev"] * 3 * self.has_previous))
        match kind:
            case "prev":
                return "prev(v)", lambda rows: rows[-2][1]["v"]
            case "last" | "first":
                offset = 0 if variable == self.single else draw(st.sampled_from([0, 0, 1, 2]))
                step = 1 if kind == "first" else -1
                text = f"{kind}({column}, {offset})" if offset else column
                text = f"first({column})" if kind == "first" and not offset else text
                return text, lambda rows: next(iter(read(rows)[::step][offset:]), None)
            case "all":
                rows_of = "*" if variable is None else f"{variable}.*"
                return f"count({rows_of})", lambda rows: len(read(rows))
        compute = AGGREGATES[kind]
        return f"{kind}({column})", lambda rows: compute([v for v in read(rows) if v is not None])

    def draw_condition(self, draw: st.DrawFn, depth: int = 2) -> Value:
        """Draw a condition; null is false."""
        if depth and draw(st.integers(0, 3)) == 3:
            (left, first), (right, second) = (self.draw_condition(draw, depth - 1) for _ in "12")
            if draw(st.booleans()):
                return f"({left} or {right})", lambda rows: first(rows) or second(rows)
            return f"({left} and {right})", lambda rows: first(rows) and second(rows)
        (left, first), (right, second) = (self.draw_value(draw) for _ in "12")
        if draw(st.booleans()):
            number = draw(st.integers(-4, 5))
            right, second = str(number), lambda rows: number
        sign = draw(st.sampled_from([*COMPARISONS]))

        def compare(rows: Matched) -> bool:
            values = first(rows), second(rows)
            return None not in values and COMPARISONS[sign](*values)

        return f"{left} {sign} {right}", compare


@st.composite
def match_tables(draw: st.DrawFn) -> MatchTable:
    """Draw a `match_recognize`."""
    text = draw(patterns())
    pattern = parse_pattern(text)
    automaton = build_automaton(pattern)
    starts = {pattern.names[option.variable] for option in automaton.start}
    is_adjacent = not {"->", "=>"} & {*text.split()}
    conditions = dict[str, Value]()
    for number, name in enumerate(pattern.names):
        earlier = [pattern.names[at] for at in sorted(automaton.find_earlier(number))]
        single = None if name in earlier else name
        readable = Readable(
            [*dict.fromkeys([*earlier, name])], single, is_adjacent and name not in starts
        )
        if not conditions or draw(st.integers(0, 4)):
            conditions[name] = readable.draw_condition(draw)
    count, within = draw(st.sampled_from([0, 1, 2, 3])), draw_within(draw, text)
    values = Readable(pattern.variables)
    measures = {f"m{at}": values.draw_value(draw) for at in range(count)}
    return MatchTable(
        pattern,
        conditions,
        measures,
        draw(st.sampled_from([*PARTITIONS])),
        int(within.rstrip("s")) if within else None,
        _read_skip(draw_after(draw, pattern, automaton)),
    )


def _read_skip(text: str) -> AfterMatch:
    rule, _, variable = text.strip("{}").partition(": ")
    return AfterMatch("next" if rule == "none" else SKIP_RULES[rule], variable or None)
