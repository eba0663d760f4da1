"""Random queries in SQL, with one meaning in Spark and in DuckDB, over the tables `o`, `p` and `c`.

Orders of rankings name all columns of their rows, so only equal rows are equal in them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from tests.support.reference.random_sql_groups import GroupDrawing, Items
from tests.support.reference.random_sql_values import (
    NUMBER,
    STRING,
    TABLES,
    Column,
    ColumnType,
    QueryText,
    TableText,
    alias_columns,
)

DEPTH = 2
"""How many queries may be inside each other in `from`."""
_JOINS = (
    *("join", "join", "inner join", "left join", "right join", "full join"),
    *("semi join", "anti join"),
)
_ONE_SIDED = ("semi join", "anti join")
_DIRECTIONS = ("", " desc", " nulls last", " desc nulls first", " asc")
_VIEW = re.compile(r"lateral view( outer)? explode\((.*?)\) (t\d+) as (\w+)")


class SqlDrawing(GroupDrawing):
    """Draws queries; all that is random comes from `random`."""

    def __init__(self, random: Random, facts: Sequence[str] = ()) -> None:
        super().__init__(random)
        self.facts = facts
        self._named: dict[str, tuple[Column, ...]] = {}
        """The queries of `with`."""
        self._has_product = False
        """Whether two tables are joined without an equality."""

    def query(self) -> str:
        """Return a query."""
        named = dict[str, str]()
        while self.chance(0.3) and len(named) < 2:
            made, name = self._query(1), self.name("q")
            named[name] = made.text
            self._named[name] = made.columns
        text, used = self._query(DEPTH, is_whole=True).text, list[str]()
        for name, each in reversed(named.items()):
            if any(f" {name} as " in other for other in (text, *used)):
                used = [f"{name} as ({each})", *used]
        return f"with {', '.join(used)} {text}" if used else text

    def _query(self, depth: int, *, is_whole: bool = False) -> QueryText:
        kinds = [self._rows, self._rows, self._groups, self._groups, self._distinct, self._sets]
        kinds += [self._grouping_sets]
        kinds += [self._total] if self.chance(0.5) else []
        kinds += [self._windows] if self.facts and self.chance(0.7) else []
        kinds += [self._ranking, self._first] if is_whole or self.chance(0.3) else []
        return self.pick(kinds)(depth)

    def _rows(self, depth: int) -> QueryText:
        return self._select(self._table(depth), depth)

    def _distinct(self, depth: int) -> QueryText:
        return self._select(self._table(depth), depth, "select distinct")

    def _windows(self, depth: int) -> QueryText:
        return self.windows()

    def _select(self, table: TableText, depth: int, word: str = "select") -> QueryText:
        found: Items = [(self.number(table), NUMBER) for _ in range(self.random.randint(1, 2))]
        found += [(self.string(table), STRING) for _ in range(self.random.randint(1, 2))]
        if depth and self.chance(0.2):
            found.append((self._query_value(table), NUMBER))
        found += [self.partition_aggregate(table)] if self.chance(0.15) else []
        made = self.write(word, found, f"from {table.text}{self._where(table, depth)}")
        if not self.chance(0.06):
            return made
        call, type = self.partition_aggregate(table)
        bound = "> 2" if type == NUMBER else "<> 'b'"
        return QueryText(f"{made.text} qualify {call} {bound}", made.columns)

    def _query_value(self, table: TableText) -> str:
        """Return a number that a query inside of it says."""
        scalar, condition = self._scalar(table), self._query_condition(table)
        return self.pick(
            (
                *(scalar, f"{self.number(table)} + {scalar}", f"coalesce({scalar}, 0)"),
                f"case when {condition} then 1 when not ({condition}) then 2 end",
            )
        )

    def _groups(self, depth: int) -> QueryText:
        table = self._table(depth)
        keys: Items = []
        for _ in range(self.pick((1, 1, 2))):
            type: ColumnType = self.pick((STRING, STRING, NUMBER))
            key = self.value(table, type)
            if key not in [each for each, _ in keys]:
                keys.append((key, type))
        calls = self._calls(table, depth)
        calls += [self._share(keys)] if self.chance(0.1) else []
        where = self._where(table, depth)
        made = self.write("select", [*keys, *calls], f"from {table.text}{where}")
        by = self.group_by(keys, made.names)
        if by == "all" and " over (" in made.text:
            by = "1" if len(keys) == 1 else "1, 2"
        text = f"{made.text} group by {by}{self._having(table, depth)}"
        return QueryText(text, made.columns)

    def _share(self, keys: Items) -> tuple[str, ColumnType]:
        """Return the number of rows of each group beside that of all groups with the same key."""
        over = self.pick(("", f"partition by {keys[0][0]}"))
        return f"count(*) * 100 - sum(count(*)) over ({over})", NUMBER

    def _grouping_sets(self, depth: int) -> QueryText:
        table = self._table(depth)
        types: tuple[ColumnType, ...] = self.pick(((STRING,), (STRING, NUMBER), (STRING, STRING)))
        keys = dict(reversed([(self.value(table, type), type) for type in types]))
        calls = self._calls(table, depth)
        calls += [(self.grouping_call([*keys]), NUMBER)] if self.chance(0.6) else []
        where = self._where(table, depth)
        made = self.write("select", [*keys.items(), *calls], f"from {table.text}{where} group by")
        # Of no rows, Spark has no groups, and DuckDB has the one that has no key.
        having = f" having count(*) > 0{self._having(table, depth).replace(' having', ' and')}"
        return QueryText(f"{made.text} {self.grouping_sets([*keys])}{having}", made.columns)

    def _total(self, depth: int) -> QueryText:
        """Return a query of one row, or of none."""
        table = self._table(depth)
        calls = self._calls(table, depth)
        made = self.write("select", calls, f"from {table.text}{self._where(table, depth)}")
        return QueryText(f"{made.text}{self._having(table, depth)}", made.columns)

    def _calls(self, table: TableText, depth: int) -> Items:
        calls = [self.aggregate(table) for _ in range(self.random.randint(1, 2))]
        if depth and self.chance(0.1):
            calls.append((f"{self.pick(('sum', 'max'))}({self._query_value(table)})", NUMBER))
        return calls

    def _having(self, table: TableText, depth: int) -> str:
        if not self.chance(0.3):
            return ""
        number = self.number(table)
        call = self.pick(("count(*)", f"count({number})", f"sum({number})"))
        bound = str(self.random.randint(0, 3))
        if depth and self.chance(0.15):
            bound = "(select min(i.w) from p as i)"
        return f" having {call} > {bound}"

    def _sets(self, depth: int) -> QueryText:
        made = [self._pair(depth) for _ in range(self.pick((2, 2, 3)))]
        text = made[0].text
        for each in made[1:]:
            word = self.pick(("union", "intersect", "except")) + self.pick(("", " all"))
            text = f"{text} {word} {each.text}"
        return QueryText(text, made[0].columns)

    def _pair(self, depth: int) -> QueryText:
        """Return a query of a number and a string."""
        table = self._table(depth - 1)
        items: Items = [(self.number(table), NUMBER), (self.string(table), STRING)]
        word = self.pick(("select", "select", "select distinct"))
        return self.write(word, items, f"from {table.text}{self._where(table, 0)}")

    def _first(self, depth: int) -> QueryText:
        made = self.pick((self._rows, self._groups, self._distinct, self._sets))(depth)
        order = [f"{name}{self.pick(_DIRECTIONS)}" for name in self.shuffle(made.names)]
        # DuckDB takes no expression there after group by all, and none over a query in a column.
        has_all = " group by all" in made.text or "(select " in made.text.partition(" from ")[0]
        numbers = [each.text for each in made.columns if each.type == NUMBER]
        if self.chance(0.3) and numbers and not has_all:
            order = [f"{self.pick(numbers)} % 3{self.pick(_DIRECTIONS)}", *order]
        # Spark 4.3 forgets the order before an offset inside of some queries.
        offset = self.pick(("", "", " offset 2")) if depth == DEPTH else ""
        text = f"{made.text} order by {', '.join(order)} limit {self.pick((1, 3, 8))}{offset}"
        return QueryText(text, made.columns)

    def _ranking(self, depth: int) -> QueryText:
        """Return the first rows of each key."""
        made = self.pick((self._rows, self._groups, self._distinct))(depth - 1)
        name, key = self.name("t"), self.pick(made.names)
        function = self.pick(("row_number", "row_number", "rank", "dense_rank"))
        names = self.shuffle(made.names)
        if function != "row_number":
            names = names[:1]
        order = ", ".join(f"{each}{self.pick(_DIRECTIONS)}" for each in names)
        call = f"{function}() over (partition by {key} order by {order})"
        limit = f"<= {self.pick((1, 2, 3))}" if self.chance(0.8) else "= 1"
        if self.chance(0.5):
            text = f"select * from ({made.text}) as {name} qualify {call} {limit}"
            return QueryText(text, made.columns)
        rank = self.name("rank")
        inner = f"select *, {call} as {rank} from ({made.text}) as {name}"
        text = f"select * from ({inner}) as {self.name('t')} where {rank} {limit}"
        return QueryText(text, (*made.columns, Column(rank, NUMBER)))

    def _table(self, depth: int) -> TableText:
        chance = self.random.random()
        if depth > 0 and chance < 0.25:
            table = self._derived_table(depth - 1)
        elif chance < 0.28:
            table = self._using()
        else:
            table = self._named_table() if chance < 0.5 else self._join(depth)
        return self._explode(table) if self.chance(0.08) else table

    def _using(self) -> TableText:
        """Return a join by the columns of one name."""
        kind = self.pick(("join", "left join", "right join", "full join"))
        sides = []
        for name in self.shuffle(("o", "c")):
            alias, columns = self.name("x"), [Column(*each) for each in TABLES[name].items()]
            sides.append(alias_columns(f"{name} as {alias}", alias, columns))
        one, other = sides
        text = self.pick((f"{kind} {other.text} using (k)", f"natural {kind} {other.text}"))
        items: Items = [("k", STRING)]
        items += [(e.text, e.type) for e in (*one.columns, *other.columns) if e.text[-2:] != ".k"]
        made, alias = self.write("select", items, f"from {one.text} {text}"), self.name("t")
        return alias_columns(f"({made.text}) as {alias}", alias, made.columns)

    def _named_table(self) -> TableText:
        name, alias = self.pick((*TABLES, *self._named, *self._named)), self.name("x")
        columns = self._named.get(name) or [Column(*each) for each in TABLES[name].items()]
        return alias_columns(f"{name} as {alias}", alias, columns)

    def _derived_table(self, depth: int) -> TableText:
        made, alias = self._query(depth), self.name("t")
        return alias_columns(f"({made.text}) as {alias}", alias, made.columns)

    def _explode(self, table: TableText) -> TableText:
        """Return a table with each row once for each value of an array."""
        type = self.pick(table.columns).type
        array = f"array({self.value(table, type)}, {self.value(table, type)})"
        alias, name, outer = self.name("t"), self.name(type[0]), self.pick(("", " outer"))
        if self.chance(0.5):
            array = f"case when {self.condition(table)} then {array} end"
        view = f"lateral view{outer} explode({array}) {alias} as {name}"
        return table.join(view, [Column(f"{alias}.{name}", type)])

    def _join(self, depth: int) -> TableText:
        left = self._named_table()
        for _ in range(self.pick((1, 1, 1, 2))):
            is_derived = depth > 0 and self.chance(0.15)
            right = self._derived_table(depth - 1) if is_derived else self._named_table()
            if self.chance(0.1):
                return self._join_by_where(left, right)
            left = self._join_two(left, right)
        return left

    def _join_by_where(self, left: TableText, right: TableText) -> TableText:
        columns = (*left.columns, *right.columns)
        return TableText(f"{left.text}, {right.text}", columns, (self.equality(left, right),))

    def _join_two(self, left: TableText, right: TableText) -> TableText:
        kind, on = self.pick(_JOINS), self.equality(left, right)
        if not self._has_product and self.chance(0.15):
            self._has_product, on = True, self.comparison(left, right)
            if self.chance(0.3):
                return left.join(f"cross join {right.text}", right.columns)
        while self.chance(0.3):
            side = self.pick((left, right, None))
            more = self.condition(side) if side else self.comparison(left, right)
            on = f"{on} and {more}"
        columns = () if kind in _ONE_SIDED else right.columns
        return left.join(f"{kind} {right.text} on {on}", columns)

    def _where(self, table: TableText, depth: int) -> str:
        conditions = [*table.conditions]
        while self.chance(0.4) and len(conditions) < 3:
            is_query = depth and self.chance(0.45)
            conditions.append(self._filter(table) if is_query else self.condition(table))
        return f" where {' and '.join(self.shuffle(conditions))}" if conditions else ""

    def _filter(self, table: TableText) -> str:
        """Return a condition with a query in it, which may be below `or`."""
        if self.chance(0.3):
            one, other = self._query_condition(table), self.condition(table)
            if self.chance(0.3):
                other = self._query_condition(table)
            return f"{self.pick(('', 'not '))}({one} {self.pick(('or', 'and'))} {other})"
        return self._query_condition(table, takes_comparisons=True)

    def _query_condition(self, table: TableText, *, takes_comparisons: bool = False) -> str:
        choice, word = self.random.randrange(5), self.pick(("in", "in", "not in"))
        if choice == 0:
            inner = self._named_table()
            query = f"select {self.pick(inner.of_type(NUMBER) or ['1'])} from {inner.text}"
            query = f"{query}{self._where(inner, 0)}"
            return f"{self.number(table)} {word} ({query})"
        if choice == 1:
            made = self.pick((self._distinct, self._groups, self._sets))(0)
            name = self.name("t")
            column = self.pick(made.columns)
            subject = self.value(table, column.type)
            return f"{subject} {word} (select {name}.{column.text} from ({made.text}) as {name})"
        if choice in (2, 3):
            inner = self._table(0)
            word = self.pick(("exists", "not exists"))
            on = " and ".join((*inner.conditions, self.equality(inner, table)))
            if self.chance(0.4):
                on = f"{on} and {self.condition(inner)}"
            if takes_comparisons and self.chance(0.2):
                on = f"{on} and {self.comparison(inner, table)}"
            return f"{word} (select 1 from {inner.text} where {on})"
        sign = self.pick(("<", ">", "="))
        return f"{self.number(table)} {sign} {self._scalar(table)}"

    def _scalar(self, table: TableText) -> str:
        """Return a query of one number."""
        inner = self._named_table()
        number = self.number(inner)
        call = self.pick((f"max({number})", f"min({number}) + 1", "count(*)", f"count({number})"))
        conditions = [self.condition(inner)] if self.chance(0.5) else []
        if self.chance(0.6):
            conditions.append(self.equality(inner, table))
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"(select {call} from {inner.text}{where})"


def write_duckdb(query: str) -> str:
    """Return a query as DuckDB writes it, which has no lateral views."""

    def join(found: re.Match[str]) -> str:
        outer, array, alias, name = found.groups()
        rows = f"lateral (select unnest({array.replace('array(', 'list_value(')}) as {name})"
        return f"left join {rows} as {alias} on true" if outer else f"cross join {rows} as {alias}"

    return _VIEW.sub(join, query)
