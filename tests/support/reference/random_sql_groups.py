"""Random queries in SQL of groups, and of functions over windows of rows."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.reference.random_sql_values import (
    NUMBER,
    STRING,
    TABLES,
    TIME,
    Column,
    ColumnType,
    QueryText,
    TableText,
    ValueDrawing,
    alias_columns,
)

Items = list[tuple[str, ColumnType]]
"""Expressions and their types."""
_AGGREGATES = (
    *("count(*)", "count({n})", "sum({n})", "min({s})", "max({n})", "count(distinct {s})"),
    *("sum({n}) + count(*)", "max({s})", "coalesce(sum({n}), 0)", "sum(distinct {n})"),
    *("count(*) filter (where {c})", "sum({n}) filter (where {c})", "min({n})"),
    *("max({s}) filter (where {c})", "max({n}) - min({n})"),
    *("cast(floor(avg({n})) as bigint)", "sum(case when {c} then {n} else 0 end)"),
    "cast(bool_and({c}) as int)",
)
_PLAIN_AGGREGATES = ("count(*)", "count({n})", "sum({n})", "min({s})", "max({n})", "min({n})")
_OVER = (
    *("row_number()", "rank()", "dense_rank()", "lag({n})", "lead({s})", "lag({s}, 2)"),
    *("lead({n}, 2, 0)",),
)
_OVER_FRAMES = (
    *("sum({n})", "count(*)", "min({n})", "max({s})", "count({s})", "first_value({n})"),
    *("last_value({s})", "nth_value({n}, 2)"),
)
_FRAMES = (
    *("", "rows 2 preceding", "rows between 3 preceding and 1 preceding"),
    *("rows between unbounded preceding and current row", "range interval 100 seconds preceding"),
    "range between interval 200 seconds preceding and current row",
    "rows between 1 preceding and 1 following",
    "range between interval 50 seconds preceding and interval 100 seconds following",
)


class GroupDrawing(ValueDrawing):
    """Draws the clauses of groups and of windows."""

    facts: Sequence[str] = ()
    """The tables that have an event time."""

    def aggregate(self, table: TableText) -> tuple[str, ColumnType]:
        """Return an aggregate of the rows of a table, and its type."""
        text = self.pick(_AGGREGATES)
        return text.format(**self._fill(table)), _type_of(text)

    def partition_aggregate(self, table: TableText) -> tuple[str, ColumnType]:
        """Return an aggregate of all rows of a partition, and its type."""
        text = self.pick(_PLAIN_AGGREGATES)
        by = [self.value(table, self.pick((STRING, STRING, NUMBER))) for _ in range(2)]
        over = self.pick(("", f"partition by {by[0]}", f"partition by {', '.join(by)}"))
        call = f"{text.format(**self._fill(table))} over ({over})"
        if _type_of(text) == NUMBER and self.chance(0.3):
            call = f"{self.number(table)} - {call}"
        return call, _type_of(text)

    def group_by(self, keys: Items, names: Sequence[str]) -> str:
        """Write the keys of `group by` as columns of the result, positions or expressions."""
        by = [self.pick((names[at], str(at + 1), key)) for at, (key, _) in enumerate(keys)]
        return self.pick((", ".join(by), ", ".join(by), "all"))

    def grouping_sets(self, keys: Sequence[str]) -> str:
        """Write sets of keys."""
        first, *rest = keys
        listed = ", ".join(keys)
        kinds = [f"rollup({listed})", f"cube({listed})", f"grouping sets (({listed}), ())"]
        if rest:
            others = ", ".join(rest)
            kinds += [
                f"{first}, rollup({others})",
                f"grouping sets (({listed}), {first}, {others})",
                f"grouping sets (({first}), rollup({others}))",
            ]
        return self.pick(kinds)

    def grouping_call(self, keys: Sequence[str]) -> str:
        """Return a number that tells the set of a group."""
        one = f"cast(grouping({self.pick(keys)}) as bigint)"
        return self.pick((one, f"grouping_id({', '.join(keys)})"))

    def windows(self) -> QueryText:
        """Return a query of functions over windows of the rows of facts, by event time."""
        name, alias = self.pick(self.facts), self.name("x")
        columns = [Column(*each) for each in TABLES[name].items()]
        table, time = alias_columns(f"{name} as {alias}", alias, columns), f"{alias}.{TIME}"
        partitions = [
            "",
            f"partition by {self.string(table)}",
            f"partition by {self.number(table)}",
        ]
        partition = self.pick(partitions)
        calls, named = Items(), dict[str, str]()
        for _ in range(self.random.randint(1, 3)):
            partition = self.pick((partition, partition, self.pick(partitions)))
            calls.append(self._window_call(table, f"{partition} order by {time}".strip(), named))
        plain: Items = [(self.number(table), NUMBER), (self.string(table), STRING)]
        where = f" where {self.condition(table)}" if self.chance(0.3) else ""
        made = self.write("select", [*plain, *calls], f"from {table.text}{where}")
        windows = ", ".join(f"{name} as ({text})" for name, text in named.items())
        text = f"{made.text} window {windows}" if named else made.text
        if self.chance(0.3):
            numbers = [e for (e, type) in calls if type == NUMBER]
            call = self.pick(numbers) if numbers else f"row_number() over (order by {time})"
            text = f"{text} qualify {call} {self.pick(('>', '<', '<>'))} 2"
        return QueryText(text, made.columns)

    def _window_call(
        self, table: TableText, window: str, named: dict[str, str]
    ) -> tuple[str, ColumnType]:
        has_frame = self.chance(0.6)
        text = self.pick(_OVER_FRAMES if has_frame else _OVER)
        if has_frame:
            window = f"{window} {self.pick(_FRAMES)}".strip()
        over = f"({window})"
        if self.chance(0.2):
            over = next((name for name, each in named.items() if each == window), "")
            over = over or self.name("w")
            named[over] = window
        type, call = _type_of(text), f"{text.format(**self._fill(table))} over {over}"
        if type == NUMBER and self.chance(0.15):
            call = f"{self.number(table)} - {call}"
        return call, type

    def _fill(self, table: TableText) -> dict[str, str]:
        return {"n": self.number(table), "s": self.string(table), "c": self.condition(table)}


def _type_of(call: str) -> ColumnType:
    """Return the type of a call: that of its argument, unless it counts."""
    return STRING if "{s}" in call and not call.startswith("count") else NUMBER
