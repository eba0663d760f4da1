"""Random queries in SQL, with one meaning in Spark and in DuckDB, over the tables `o`, `p` and `c`.

A relation has columns of two types: numbers (bigint) and strings. Orders of rankings name all
columns of their rows, so only equal rows are equal in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
DEPTH = 2
"""How many queries may be inside each other in `from`."""
_JOINS = (
    *("join", "join", "inner join", "left join", "right join", "full join"),
    *("semi join", "anti join"),
)
_ONE_SIDED = ("semi join", "anti join")
_AGGREGATES = (
    *("count(*)", "count({n})", "sum({n})", "min({s})", "max({n})", "count(distinct {s})"),
    *("sum({n}) + count(*)", "max({s})", "coalesce(sum({n}), 0)", "sum(distinct {n})"),
    *("count(*) filter (where {c})", "sum({n}) filter (where {c})", "min({n})"),
)
_DIRECTIONS = ("", " desc", " nulls last", " desc nulls first", " asc")


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


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query and the columns of its result."""

    text: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(each.text for each in self.columns)


class SqlDrawing:
    """Draws queries; all that is random comes from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._count = 0
        self._named: dict[str, tuple[Column, ...]] = {}
        """The queries of `with`."""

    def query(self) -> str:
        """Return a query."""
        named = list[str]()
        while self._chance(0.25) and len(named) < 2:
            made, name = self._query(1), self._name("q")
            named.append(f"{name} as ({made.text})")
            self._named[name] = made.columns
        text = self._query(DEPTH, is_whole=True).text
        return f"with {', '.join(named)} {text}" if named else text

    def _query(self, depth: int, *, is_whole: bool = False) -> QueryText:
        kinds = [self._rows, self._rows, self._groups, self._groups, self._distinct, self._sets]
        kinds += [self._ranking, self._first] if is_whole or self._chance(0.3) else []
        return self._pick(kinds)(depth)

    def _rows(self, depth: int) -> QueryText:
        return self._select(self._table(depth), depth)

    def _distinct(self, depth: int) -> QueryText:
        return self._select(self._table(depth), depth, "select distinct")

    def _select(self, table: TableText, depth: int, word: str = "select") -> QueryText:
        numbers = [self._number(table) for _ in range(self.random.randint(1, 2))]
        strings = [self._string(table) for _ in range(self.random.randint(1, 2))]
        if depth and self._chance(0.08):
            numbers.append(self._scalar(table))
        found = [*((t, NUMBER) for t in numbers), *((t, STRING) for t in strings)]
        return self._write(word, found, f"from {table.text}{self._where(table, depth)}")

    def _write(self, word: str, items: Iterable[tuple[str, ColumnType]], rest: str) -> QueryText:
        listed, columns = [], []
        for text, type in items:
            name = self._name(type[0])
            listed.append(f"{text} as {name}")
            columns.append(Column(name, type))
        return QueryText(f"{word} {', '.join(listed)} {rest}", tuple(columns))

    def _groups(self, depth: int) -> QueryText:
        table = self._table(depth)
        keys: list[tuple[str, ColumnType]] = []
        for _ in range(self._pick((1, 1, 2))):
            type: ColumnType = self._pick((STRING, STRING, NUMBER))
            key = self._number(table) if type == NUMBER else self._string(table)
            if key not in [each for each, _ in keys]:
                keys.append((key, type))
        calls = [self._aggregate(table) for _ in range(self.random.randint(1, 2))]
        where = self._where(table, depth)
        made = self._write("select", [*keys, *calls], f"from {table.text}{where} group by")
        by = ", ".join(
            self._pick((made.names[at], str(at + 1), key)) for at, (key, _) in enumerate(keys)
        )
        text = f"{made.text} {self._pick((by, by, 'all'))}"
        if self._chance(0.4):
            number = self._number(table)
            call = self._pick(("count(*)", f"count({number})", f"sum({number})"))
            text = f"{text} having {call} > {self._having_bound(depth)}"
        return QueryText(text, made.columns)

    def _having_bound(self, depth: int) -> str:
        if depth and self._chance(0.15):
            return "(select min(i.w) from p as i)"
        return str(self.random.randint(0, 3))

    def _sets(self, depth: int) -> QueryText:
        made = [self._pair(depth) for _ in range(self._pick((2, 2, 3)))]
        text = made[0].text
        for each in made[1:]:
            word = self._pick(("union", "intersect", "except")) + self._pick(("", " all"))
            text = f"{text} {word} {each.text}"
        return QueryText(text, made[0].columns)

    def _pair(self, depth: int) -> QueryText:
        """Return a query of a number and a string."""
        table = self._table(depth - 1)
        items = [(self._number(table), NUMBER), (self._string(table), STRING)]
        word = self._pick(("select", "select", "select distinct"))
        return self._write(word, items, f"from {table.text}{self._where(table, 0)}")

    def _first(self, depth: int) -> QueryText:
        made = self._pick((self._rows, self._groups, self._distinct, self._sets))(depth)
        order = ", ".join(f"{name}{self._pick(_DIRECTIONS)}" for name in self._shuffle(made.names))
        offset = self._pick(("", "", " offset 2"))
        text = f"{made.text} order by {order} limit {self._pick((1, 3, 8))}{offset}"
        return QueryText(text, made.columns)

    def _ranking(self, depth: int) -> QueryText:
        """Return the first rows of each key."""
        made = self._pick((self._rows, self._groups, self._distinct))(depth - 1)
        name, key = self._name("t"), self._pick(made.names)
        order = ", ".join(f"{each}{self._pick(_DIRECTIONS)}" for each in self._shuffle(made.names))
        call = f"row_number() over (partition by {key} order by {order})"
        limit = f"<= {self._pick((1, 2, 3))}" if self._chance(0.8) else "= 1"
        if self._chance(0.5):
            text = f"select * from ({made.text}) as {name} qualify {call} {limit}"
            return QueryText(text, made.columns)
        rank = self._name("rank")
        inner = f"select *, {call} as {rank} from ({made.text}) as {name}"
        text = f"select * from ({inner}) as {self._name('t')} where {rank} {limit}"
        return QueryText(text, (*made.columns, Column(rank, NUMBER)))

    def _table(self, depth: int) -> TableText:
        chance = self.random.random()
        if depth > 0 and chance < 0.25:
            return self._derived_table(depth - 1)
        return self._named_table() if chance < 0.5 else self._join(depth)

    def _named_table(self) -> TableText:
        name, alias = self._pick((*TABLES, *self._named, *self._named)), self._name("x")
        columns = self._named.get(name) or [Column(*each) for each in TABLES[name].items()]
        return _alias_columns(f"{name} as {alias}", alias, columns)

    def _derived_table(self, depth: int) -> TableText:
        made, alias = self._query(depth), self._name("t")
        return _alias_columns(f"({made.text}) as {alias}", alias, made.columns)

    def _join(self, depth: int) -> TableText:
        left = self._named_table()
        for _ in range(self._pick((1, 1, 1, 2))):
            is_derived = depth > 0 and self._chance(0.15)
            right = self._derived_table(depth - 1) if is_derived else self._named_table()
            if self._chance(0.1):
                return self._join_by_where(left, right)
            left = self._join_two(left, right)
        return left

    def _join_by_where(self, left: TableText, right: TableText) -> TableText:
        columns = (*left.columns, *right.columns)
        return TableText(f"{left.text}, {right.text}", columns, (self._equality(left, right),))

    def _join_two(self, left: TableText, right: TableText) -> TableText:
        kind, on = self._pick(_JOINS), self._equality(left, right)
        while self._chance(0.3):
            side = self._pick((left, right, None))
            more = self._condition(side) if side else self._comparison(left, right)
            on = f"{on} and {more}"
        columns = left.columns if kind in _ONE_SIDED else (*left.columns, *right.columns)
        return TableText(f"{left.text} {kind} {right.text} on {on}", columns)

    def _equality(self, left: TableText, right: TableText) -> str:
        type: ColumnType = self._pick((NUMBER, STRING))
        if not (left.of_type(type) and right.of_type(type)):
            type = STRING if type == NUMBER else NUMBER
        if left.of_type(type) and right.of_type(type):
            one, other = self._pick(left.of_type(type)), self._pick(right.of_type(type))
        else:
            one, other = self._string(left), self._string(right)
        if type == NUMBER and self._chance(0.15):
            other = f"{other} + 1"
        return f"{one} = {other}" if self._chance(0.7) else f"{other} = {one}"

    def _comparison(self, left: TableText, right: TableText) -> str:
        sign = self._pick(("<", "<=", "<>", ">"))
        return f"{self._number(left)} {sign} {self._number(right)}"

    def _where(self, table: TableText, depth: int) -> str:
        conditions = [*table.conditions]
        while self._chance(0.4) and len(conditions) < 3:
            is_query = depth and self._chance(0.45)
            conditions.append(self._query_condition(table) if is_query else self._condition(table))
        return f" where {' and '.join(self._shuffle(conditions))}" if conditions else ""

    def _query_condition(self, table: TableText) -> str:
        choice = self.random.randrange(5)
        if choice == 0:
            inner = self._named_table()
            query = f"select {self._pick(inner.of_type(NUMBER) or ['1'])} from {inner.text}"
            query = f"{query}{self._where(inner, 0)}"
            return f"{self._number(table)} in ({query})"
        if choice == 1:
            made = self._pick((self._distinct, self._groups, self._sets))(0)
            name = self._name("t")
            column = self._pick(made.columns)
            subject = self._number(table) if column.type == NUMBER else self._string(table)
            return f"{subject} in (select {name}.{column.text} from ({made.text}) as {name})"
        if choice in (2, 3):
            inner = self._table(0)
            word = self._pick(("exists", "not exists"))
            on = " and ".join((*inner.conditions, self._equality(inner, table)))
            if self._chance(0.4):
                on = f"{on} and {self._condition(inner)}"
            if self._chance(0.2):
                on = f"{on} and {self._comparison(inner, table)}"
            return f"{word} (select 1 from {inner.text} where {on})"
        sign = self._pick(("<", ">", "="))
        return f"{self._number(table)} {sign} {self._scalar(table)}"

    def _scalar(self, table: TableText) -> str:
        """Return a query of one number."""
        inner = self._named_table()
        number = self._number(inner)
        call = self._pick((f"max({number})", f"min({number}) + 1", "count(*)", f"count({number})"))
        conditions = [self._condition(inner)] if self._chance(0.5) else []
        if self._chance(0.6):
            conditions.append(self._equality(inner, table))
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"(select {call} from {inner.text}{where})"

    def _condition(self, table: TableText) -> str:
        if self._chance(0.1):
            one, other = self._condition(table), self._condition(table)
            return f"({one} {self._pick(('or', 'and'))} {other})"
        number, string = self._number(table), self._string(table)
        return self._pick(
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

    def _number(self, table: TableText) -> str:
        columns = table.of_type(NUMBER)
        if not columns:
            return f"length({self._pick(table.of_type(STRING))})"
        column = self._pick(columns)
        other = self._pick(columns)
        return self._pick(
            (
                *(column, column, column, column, f"{column} + 1", f"coalesce({column}, 7)"),
                f"coalesce({column}, {other})",
                f"case when {column} > 3 then {other} else {column} % 2 end",
                f"nullif({column}, 2)",
            )
        )

    def _string(self, table: TableText) -> str:
        columns = table.of_type(STRING)
        if not columns:
            return f"cast({self._pick(table.of_type(NUMBER))} as string)"
        column = self._pick(columns)
        return self._pick(
            (
                *(column, column, column, column, f"upper({column})", f"{column} || 'x'"),
                f"coalesce({column}, 'z')",
                f"case when {column} = 'a' then 'b' when {column} <> 'u' then {column} end",
            )
        )

    def _aggregate(self, table: TableText) -> tuple[str, ColumnType]:
        text = self._pick(_AGGREGATES)
        type: ColumnType = STRING if text in ("min({s})", "max({s})") else NUMBER
        values = {"n": self._number(table), "s": self._string(table), "c": self._condition(table)}
        return text.format(**values), type

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _pick(self, some: Iterable[T]) -> T:
        return self.random.choice([*some])

    def _shuffle(self, some: Iterable[T]) -> list[T]:
        found = [*some]
        self.random.shuffle(found)
        return found

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


def _alias_columns(text: str, alias: str, columns: Iterable[Column]) -> TableText:
    return TableText(text, tuple(Column(f"{alias}.{each.text}", each.type) for each in columns))
