"""Random expressions and conditions of queries in SQL over one table, and the tables.

A relation has columns of two types: numbers (bigint) and strings. Facts have their event time too,
in the column `at`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeAlias, TypeVar

T = TypeVar("T")
ColumnType: TypeAlias = Literal["bigint", "string"]
NUMBER: ColumnType = "bigint"
STRING: ColumnType = "string"
TABLES: dict[str, dict[str, ColumnType]] = {
    "o": {"id": NUMBER, "k": STRING, "v": NUMBER},
    "p": {"oid": NUMBER, "w": NUMBER, "tag": STRING},
    "c": {"k": STRING, "city": STRING, "n": NUMBER},
}
TIME = "at"
"""The column of facts with their event time, by which only functions over windows go."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is written in a query."""

    text: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class TableText:
    """The text after `from`, and the columns that may be named."""

    text: str
    columns: tuple[Column, ...]
    conditions: tuple[str, ...] = ()
    """The conditions that `where` must have."""

    def of_type(self, type: ColumnType) -> list[str]:
        """Return the columns of a type."""
        return [each.text for each in self.columns if each.type == type]

    def join(self, text: str, more: Iterable[Column]) -> TableText:
        """Return the table with more text after it and more columns."""
        return replace(self, text=f"{self.text} {text}", columns=(*self.columns, *more))


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query and the columns of its result."""

    text: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(each.text for each in self.columns)


class ValueDrawing:
    """Draws expressions; all that is random comes from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._count = 0

    def write(self, word: str, items: Iterable[tuple[str, ColumnType]], rest: str) -> QueryText:
        """Write a select of these items, each of which gets a name."""
        listed, columns = [], []
        for text, type in items:
            name = self.name(type[0])
            listed.append(f"{text} as {name}")
            columns.append(Column(name, type))
        return QueryText(f"{word} {', '.join(listed)} {rest}", tuple(columns))

    def condition(self, table: TableText) -> str:
        """Return a condition on the rows of a table."""
        if self.chance(0.1):
            one, other = self.condition(table), self.condition(table)
            return f"({one} {self.pick(('or', 'and'))} {other})"
        number, string = self.number(table), self.string(table)
        return self.pick(
            (
                f"{number} > {self.random.randint(0, 6)}",
                f"{number} between 1 and {self.random.randint(2, 6)}",
                f"({string} = 'b' or {number} is null)",
                f"{string} in ('a', 'b', 'u')",
                f"not ({number} % 3 = 1)",
                f"{string} is not null",
                f"{string} like '%a%'",
                f"{number} is distinct from {self.random.randint(0, 6)}",
            )
        )

    def equality(self, left: TableText, right: TableText) -> str:
        """Return an equality of values of two tables."""
        type: ColumnType = self.pick((NUMBER, STRING))
        if not (left.of_type(type) and right.of_type(type)):
            type = STRING if type == NUMBER else NUMBER
        if left.of_type(type) and right.of_type(type):
            one, other = self.pick(left.of_type(type)), self.pick(right.of_type(type))
        else:
            one, other = self.string(left), self.string(right)
        if type == NUMBER and self.chance(0.15):
            other = f"{other} + 1"
        return f"{one} = {other}" if self.chance(0.7) else f"{other} = {one}"

    def comparison(self, left: TableText, right: TableText) -> str:
        """Return an inequality of numbers of two tables."""
        sign = self.pick(("<", "<=", "<>", ">"))
        return f"{self.number(left)} {sign} {self.number(right)}"

    def value(self, table: TableText, type: ColumnType) -> str:
        """Return an expression of a type over the rows of a table."""
        return self.number(table) if type == NUMBER else self.string(table)

    def number(self, table: TableText) -> str:
        """Return a number of each row of a table."""
        columns = table.of_type(NUMBER)
        if not columns:
            return f"length({self.pick(table.of_type(STRING))})"
        column = self.pick(columns)
        other = self.pick(columns)
        return self.pick(
            (
                *(column, column, column, column, f"{column} + 1", f"coalesce({column}, 7)"),
                f"coalesce({column}, {other})",
                f"case when {column} > 3 then {other} else {column} % 2 end",
                f"nullif({column}, 2)",
            )
        )

    def string(self, table: TableText) -> str:
        """Return a string of each row of a table."""
        columns = table.of_type(STRING)
        if not columns:
            return f"cast({self.pick(table.of_type(NUMBER))} as string)"
        column = self.pick(columns)
        return self.pick(
            (
                *(column, column, column, column, f"upper({column})", f"{column} || 'x'"),
                f"coalesce({column}, 'z')",
                f"case when {column} = 'a' then 'b' when {column} <> 'u' then {column} end",
            )
        )

    def chance(self, share: float) -> bool:
        """Return true with this probability."""
        return self.random.random() < share

    def pick(self, some: Iterable[T]) -> T:
        """Return one of these."""
        return self.random.choice([*some])

    def shuffle(self, some: Iterable[T]) -> list[T]:
        """Return these in another order."""
        found = [*some]
        self.random.shuffle(found)
        return found

    def name(self, prefix: str) -> str:
        """Return a name that the query does not have yet."""
        self._count += 1
        return f"{prefix}{self._count}"


def alias_columns(text: str, alias: str, columns: Iterable[Column]) -> TableText:
    """Return a table with an alias, which is written before its columns."""
    return TableText(text, tuple(Column(f"{alias}.{each.text}", each.type) for each in columns))
