"""The parser of queries: what is read as what, and where a mistake is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.core.expressions.parsing.syntax_tree import Star, SyntaxNode
from headrace.core.expressions.typed import ExpressionError
from headrace.core.sql.parser import parse_query
from headrace.core.sql.syntax_tree import (
    DerivedTable,
    JoinedTable,
    MatchTable,
    Query,
    QueryBody,
    Select,
    SetOperation,
    TableItem,
    Values,
    list_table_names,
)


def shape(text: str) -> str:
    """Return the parts of a query, each with the text that its span has."""
    return " | ".join(_of_query(parse_query(text), text))


def _of_query(query: Query, text: str) -> Iterator[str]:
    for each in query.named:
        yield f"with {each.name.name}: ({' | '.join(_of_query(each.query, text))})"
    yield from _of_body(query.body, text)
    for item in query.order_by:
        yield f"order by {_cut(item.expression, text)} {'desc' if item.is_descending else 'asc'}"
    if query.limit is not None:
        yield f"limit {query.limit}, {query.offset}"


def _of_body(body: QueryBody, text: str) -> Iterator[str]:
    match body:
        case Query():
            yield f"({' | '.join(_of_query(body, text))})"
        case SetOperation():
            sides = (" | ".join(_of_body(side, text)) for side in (body.left, body.right))
            word = f" {body.operator}{' all' if body.is_all else ''} "
            yield f"[{word.join(sides)}]"
        case Values():
            yield f"values {len(body.rows)}"
        case Select():
            yield from _of_select(body, text)


def _of_select(select: Select, text: str) -> Iterator[str]:
    items = (
        f"{each.name}.*" if isinstance(each.expression, Star) else each.name
        for each in select.items
    )
    yield f"select {'distinct ' if select.is_distinct else ''}{', '.join(items)}"
    if select.table is not None:
        yield f"from {_of_table(select.table, text)}"
    for view in select.views:
        yield f"view {view.table}: {_cut(view.generator, text)} {len(view.columns)}"
    if select.where is not None:
        yield f"where {_cut(select.where, text)}"
    if select.group_by is not None:
        items = (_cut(each, text) for each in select.group_by.items)
        sets = (f"({' '.join(_cut(each, text) for each in one)})" for one in select.group_by.sets)
        yield " ".join([f"group by {', '.join(items)}", *sets])
    for word, node in (("having", select.having), ("qualify", select.qualify)):
        if node is not None:
            yield f"{word} {_cut(node, text)}"


def _of_table(item: TableItem, text: str) -> str:
    match item:
        case JoinedTable():
            on = f" on {_cut(item.on, text)}" if item.on is not None else ""
            using = f" using {', '.join(each.name for each in item.using)}" if item.using else ""
            kind = "," if item.is_comma else f"natural {item.kind}" * item.is_natural or item.kind
            return f"({_of_table(item.left, text)} {kind} {_of_table(item.right, text)}{on}{using})"
        case DerivedTable():
            return f"({' | '.join(_of_query(item.query, text))}) as {item.alias}"
        case MatchTable():
            define = ", ".join(f"{e.name}: {_cut(e.expression, text)}" for e in item.define)
            pattern = text[item.pattern.start : item.pattern.end]
            return f"{_of_table(item.table, text)} match {pattern} {define} as {item.alias}"
    as_of = f" as of {_cut(item.as_of, text)}" if item.as_of is not None else ""
    return f"{item.name} as {item.alias}{as_of}"


def _cut(node: SyntaxNode, text: str) -> str:
    return text[node.span.start : node.span.end]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("select a, b + 1 c from t;", "select a, c | from t as t"),
        ("SELECT DISTINCT t.*, x.y FROM s AS t", "select distinct t.*, y | from s as t"),
        (
            "select order, `from` from t where order > 1",
            "select order, from | from t as t | where order > 1",
        ),
        ("select from.a from t", "select a | from t as t"),
        (
            "select a from t join u on t.a = u.b left outer join v using (c, d)",
            "select a | from ((t as t inner u as u on t.a = u.b) left v as v using c, d)",
        ),
        (
            "select a from t left semi join u on a = b",
            "select a | from (t as t semi u as u on a = b)",
        ),
        (
            "select a from t, u natural join v",
            "select a | from (t as t , (u as u natural inner v as v))",
        ),
        (
            "select a from t join (u cross join v) on a = b",
            "select a | from (t as t inner (u as u cross v as v) on a = b)",
        ),
        (
            "select a from (select b from t) as u (a)",
            "select a | from (select b | from t as t) as u",
        ),
        (
            "select a from t as u match_recognize (order by b measures final last(c.d) as a pattern"
            " ((c | e){,2}? f$) define c as running c.d > 1, f as count(f.*) > 2) m (pattern)",
            "select a | from t as u match (c | e){,2}? f$ c: running c.d > 1, f: count(f.*) > 2"
            " as m",
        ),
        (
            "select a from o join v for system_time as of o.at as w on a = b",
            "select a | from (o as o inner v as w as of o.at on a = b)",
        ),
        (
            "with u as (select 1 from t), v as (select * from u) "
            "select * from v order by 1 desc limit 3",
            "with u: (select 1 | from t as t) | with v: (select .* | from u as u) | "
            "select .* | from v as v | order by 1 desc | limit 3, 0",
        ),
        (
            "select a from t union select b from u intersect select c from v "
            "except all select d from w",
            "[[select a | from t as t union "
            "[select b | from u as u intersect select c | from v as v]] "
            "except all select d | from w as w]",
        ),
        (
            "(select a from t limit 1) union all (select b from u)",
            "[(select a | from t as t | limit 1, 0) union all (select b | from u as u)]",
        ),
        ("select a from t limit 2 offset 3", "select a | from t as t | limit 2, 3"),
        (
            "select a, count(*) n from t group by a, tumble(at, interval 1 minute) having n > 1",
            "select a, n | from t as t | group by a, tumble(at, interval 1 minute) | having n > 1",
        ),
        (
            "select a from t group by rollup(a, b)",
            "select a | from t as t | group by a, b (a b) (a) ()",
        ),
        ("select a from t group by a with cube", "select a | from t as t | group by a (a) ()"),
        (
            "select a from t group by a, cube(b, (c, d))",
            "select a | from t as t | group by a, b, c, d (a b c d) (a b) (a c d) (a)",
        ),
        (
            "select a from t group by grouping sets (a, (), (a, b), rollup(c))",
            "select a | from t as t | group by a, a, b, c (a) () (a b) (c) ()",
        ),
        (
            "select row_number() over (partition by a order by b rows between 1 preceding and "
            "current row) n from t qualify n < 3",
            "select n | from t as t | qualify n < 3",
        ),
        (
            "select sum(a) over w from t window w as (partition by b)",
            "select sum(a) over w | from t as t",
        ),
        (
            "select a from t lateral view outer explode(b) x as c, d lateral view explode(e) f",
            "select a | from t as t | view x: explode(b) 2 | view f: explode(e) 0",
        ),
        (
            "select a from t where a in (select b from u) and exists (select 1 from v)",
            "select a | from t as t | where a in (select b from u) and exists (select 1 from v)",
        ),
        ("select a from values (1, 'x'), (2, 'y') as t (a, b)", "select a | from (values 2) as t"),
    ],
)  # fmt: skip
def test_queries(text: str, wanted: str) -> None:
    assert shape(text) == wanted


def test_tables_are_those_outside_of_the_query_also_inside_expressions() -> None:
    query = parse_query(
        "with a as (select * from x), b as (select * from a join y on 1 = 1) "
        "select (select max(n) from z), c.n from b, (select * from w) c "
        "where n in (select n from a) and exists (select 1 from v where v.n = c.n)"
    )
    assert [each.name for each in list_table_names(query)] == ["x", "y", "w", "z", "v"]


@pytest.mark.parametrize(
    ("text", "place", "said", "hint"),
    [
        ("select from t", "from", 'wanted a column of the result, got "from"', "`from`"),
        ("selec a from t", "selec", 'wanted "select", got "selec"', 'mean "select"'),
        ("select a from t where", "e", "wanted a value, got the end", ""),
        ("select a from t u v", "v", 'wanted the end of the query, got "v"', ""),
        ("select a as 'b' from t", "'b'", "wanted a name, got 'b'", "quoted with `"),
        ('select a from "t"', '"t"', 'wanted the name of a table, got "t"', "quoted with `"),
        ("select top 3 a from t", "top", "top is not supported", "order by ... limit"),
        ("select a from t sort by a", "sort", "sort by is not supported", "plan"),
        ("select a from t fetch first 3 rows only", "fetch", "fetch is not", "write limit 3"),
        (
            "select a from table(tumble(table t, descriptor(at), interval 1 minute))",
            "table",
            "windows are not tables here, got TUMBLE(...)",
            "group by tumble(time, interval 10 seconds)",
        ),
        ("select a from range(3)", "range", "a function is no table, got range(...)", ""),
        ("select a from t tablesample (3 rows)", "tablesample", "tablesample is not", ""),
        ("select * except (a) from t", "except", "* except (...) is not supported", "by name"),
        ("with recursive a as (select 1) select 1", "recursive", "with recursive is not", "as in"),
        ("select a from t, lateral (select 1)", "lateral", "lateral before a query", "join its"),
        ("select a from t limit x", "x", 'wanted a number of rows, got "x"', ""),
        ("", "", "wanted a query, got nothing", ""),
    ],
)  # fmt: skip
def test_mistakes(text: str, place: str, said: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_query(text)
    span = caught.value.span
    assert said in caught.value.message
    assert text[span.start : span.end] == place
    assert hint in caught.value.hint
