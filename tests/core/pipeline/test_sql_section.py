"""The section `sql` of a document: its statements become the steps that YAML would have."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan.explain import explain
from tests.support.cli.command_line import Headrace
from tests.support.plans import built

HEAD = """
name: p
sources:
  orders: {files: {path: orders.jsonl}, schema: {id: bigint, city: string, amount: bigint}}
"""
STATEMENTS = """
sinks:
  large: {files: {path: large}}
  totals: {files: {path: totals}}
sql: |
  -- what was paid; for both
  create or replace temporary view paid as select * from orders where city <> 'a;b';
  INSERT INTO large select id from paid where amount > 3 -- the end is here: ;
  ;
  insert into table totals select city, sum(amount) as total from paid group by city
"""
STEPS = """
steps:
  paid: {sql: "select * from orders where city <> 'a;b'"}
  other: {sql: select id from paid where amount > 3}
  sums: {sql: "select city, sum(amount) as total from paid group by city"}
sinks:
  large: {from: other, files: {path: large}}
  totals: {from: sums, files: {path: totals}}
"""


def test_the_plan_is_that_of_steps(tmp_path: Path) -> None:
    texts = []
    for text in (STATEMENTS, STEPS):
        plan, problems = built(tmp_path, HEAD + text)
        assert plan is not None, problems
        texts.append(explain(plan))
    assert texts[0] == texts[1].replace("other", "large@query").replace("sums", "totals@query")


def test_statements_of_a_file_run(headrace: Headrace) -> None:
    rows = ('{"id": 1, "city": "a", "amount": 5}', '{"id": 2, "city": "a", "amount": 2}')
    Path("orders.jsonl").write_text("\n".join(rows))
    at = STATEMENTS.index("sql: |\n")
    Path("p.yaml").write_text(f"{HEAD}{STATEMENTS[:at]}sql: ${{file:p.sql}}\n")
    Path("p.sql").write_text(STATEMENTS[at + len("sql: |\n") :])
    ran = headrace("run", "p.yaml", "--quiet")
    assert (ran.status, ran.err) == (0, "")
    found = {name: next(Path(name).glob("*.jsonl")).read_text() for name in ("large", "totals")}
    assert found == {"large": '{"id":1}\n', "totals": '{"city":"a","total":7}\n'}


@pytest.mark.parametrize(
    ("statement", "place", "message", "hint"),
    [
        ("create table t as select 1 as x", 8, 'wanted "view", got "table"', "a view"),
        ("select * from orders", 1, 'got "select"', "insert into SINK before it"),
        ("set 'parallelism.default' = '2'", 1, 'got "set"', "in settings"),
        ("begin statement set", 1, 'got "begin"', "run together: remove it"),
        ("insert overwrite large select id from orders", 8, 'got "overwrite"', "insert into;"),
        ("insert into large partition (id=1) select 2 as x", 19, "partition", "partition_by"),
        (
            "insert into large (id) select id from orders",
            19,
            "columns after",
            "as in select a as b",
        ),
        ("create view 'v' as select * from orders", 13, "wanted the name of the view", ""),
        ("create view `a b` as select * from orders", 13, 'got "a b"', ""),
        ("create view v as select ids from orders", 25, 'unknown column "ids"', '"id"?'),
        ("create view v as select id from orders where", 44, "wanted a value", ""),
        ("create view orders as select 1 as x", 13, 'the name "orders" is taken', ""),
        ("create view paid as select 1 as x", 13, 'there are two views "paid"', ""),
        ("insert into larg select * from orders", 13, 'no sink "larg"', 'mean "large"?'),
        ("insert into large select * from orders", 13, '"large" has two queries', "union all"),
        ("insert overwrite large select 1 as x", 8, 'wanted "into"', ""),
    ],
)
def test_mistakes_have_their_place(
    headrace: Headrace, statement: str, place: int, message: str, hint: str
) -> None:
    at = STATEMENTS.index("sql: |\n")
    Path("p.yaml").write_text(f"{HEAD}{STATEMENTS[:at]}sql: ${{file:p.sql}}\n")
    Path("p.sql").write_text(f"{STATEMENTS[at + len('sql: |') :]};\n{statement}")
    ran = headrace("validate", "p.yaml")
    assert ran.status == 2
    assert f"p.sql:8:{place}: " in ran.out
    assert message in ran.out and hint in ran.out


def test_a_statement_that_cannot_be_read_hides_no_mistake_of_others(headrace: Headrace) -> None:
    at = STATEMENTS.index("sql: |\n")
    Path("p.yaml").write_text(f"{HEAD}{STATEMENTS[:at]}sql: ${{file:p.sql}}\n")
    Path("p.sql").write_text(
        "create view a as select id, from orders;\n"
        "insert into large select id from a join nowhere on true;\n"
        "insert into totals select amount amount from orders where;\n"
        "create view b as select amont from orders;\n"
    )
    ran = headrace("validate", "p.yaml")
    found = [line for line in ran.out.splitlines() if line.startswith("p.sql:")]
    assert [line.split(" ")[0] for line in found] == [
        "p.sql:1:29:",
        "p.sql:2:41:",
        "p.sql:3:57:",
        "p.sql:4:25:",
    ]
    assert 'unknown source or step "nowhere"' in found[1]


def test_a_sink_has_one_input(headrace: Headrace) -> None:
    text = STATEMENTS.replace("large: {", "large: {from: orders, ")
    Path("p.yaml").write_text(HEAD + text)
    ran = headrace("validate", "p.yaml")
    assert ran.status == 2
    assert '"from" does not go with a query in "sql" that inserts into this sink' in ran.out
    Path("p.yaml").write_text(f"{HEAD}{STATEMENTS.split('sql: |')[0]}sql: {{a: b}}\n")
    assert "sql: wanted statements, got a mapping" in headrace("validate", "p.yaml").out
