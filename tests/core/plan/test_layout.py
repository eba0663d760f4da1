"""The exchanges and tasks of a plan, and the columns that sources decode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.core.expressions import type_expression
from headrace.core.plan.changelog import ChangelogNotSupported, infer_kind, infer_union_kind
from headrace.core.plan.layout import build_edges, find_origins, list_subtask_ids
from headrace.core.plan.nodes import (
    Append,
    ComputedColumn,
    Explode,
    Filter,
    Project,
    Retract,
    Route,
    Sink,
    Source,
    Step,
    Stream,
    Upsert,
)
from headrace.core.types.data_types import BIGINT, STRING, Array, Field, Schema
from tests.support.plans import SOURCE, plan_of

FORKED = """
steps:
  a: {from: orders, where: id is not null}
  b: {from: a, select: [id, price], parallelism: 3}
  r: {from: b, route: {big: price is null}}
sinks:
  one: {from: r.big, console: {}}
  two: {from: r.else, console: {}}
"""


def test_forward_edges_between_two_make_one_task(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f"{SOURCE}{FORKED}")
    assert [task.parts for task in plan.tasks] == [
        ("orders", "a"),
        ("b",),
        ("r",),
        ("one",),
        ("two",),
    ]
    assert {f"{e.stream}>{e.consumer}": e.exchange for e in plan.edges} == {
        "orders>a": "forward",
        "a>b": "rebalance",
        "b>r": "rebalance",
        "r.big>one": "forward",
        "r.else>two": "forward",
    }


def test_parts_come_after_what_they_read(tmp_path: Path) -> None:
    text = """
steps:
  c: {from: b, select: [id]}
  b: {from: a, select: [id]}
  a: {from: orders, select: [id]}
sinks:
  out: {from: c, console: {}}
"""
    plan = plan_of(tmp_path, f"{SOURCE}{text}")
    assert [part.name for part in plan] == ["orders", "a", "b", "c", "out"]
    assert [task.parts for task in plan.tasks] == [("orders", "a", "b", "c", "out")]


CHAINED = """
steps:
  a: {{from: orders, select: [id]{a}}}
  b: {{from: a, where: id > 1{b}}}
sinks:
  out: {{from: b, console: {{}}{out}}}
"""


@pytest.mark.parametrize(
    ("keys", "tasks"),
    [
        ({}, ["orders a b out"]),
        ({"a": ", chain: true"}, ["orders a b out"]),
        ({"a": ", chain: false"}, ["orders", "a b out"]),
        ({"b": ", chain: false", "out": ", chain: false"}, ["orders a", "b", "out"]),
        ({"a": ", slot: default"}, ["orders a b out"]),
        ({"a": ", slot: heavy"}, ["orders", "a b out"]),
        ({"b": ", slot: heavy", "out": ", slot: default"}, ["orders a", "b", "out"]),
    ],
)
def test_a_slot_and_chain_false_begin_tasks(
    tmp_path: Path, keys: dict[str, str], tasks: list[str]
) -> None:
    plan = plan_of(tmp_path, SOURCE + CHAINED.format(**{"a": "", "b": "", "out": ""} | keys))
    assert [" ".join(task.parts) for task in plan.tasks] == tasks
    assert {edge.exchange for edge in plan.edges} == {"forward"}


def test_a_slot_is_that_of_all_inputs_unless_given(tmp_path: Path) -> None:
    text = """
  others: {files: {path: in}, schema: {id: bigint}, slot: reading}
steps:
  a: {from: orders, select: [id]}
  b: {from: others, where: id > 1, on_error: {to: bad}}
  c: {from: [b, others], where: id < 9}
  d: {from: [a, c], where: id < 8}
  e: {from: c, where: id < 7, slot: heavy}
sinks:
  of_bad: {from: bad, console: {}}
  of_d: {from: d, console: {}}
  of_e: {from: e, console: {}, slot: default}
"""
    plan = plan_of(tmp_path, SOURCE + text)
    slots: dict[str, list[str]] = {task.slot: [] for task in plan.tasks}
    for part in plan:
        slots[part.slot].append(part.name)
    assert slots == {
        "default": ["orders", "a", "d", "of_d", "of_e"],
        "reading": ["others", "b", "c", "of_bad"],
        "heavy": ["e"],
    }


@pytest.mark.parametrize(
    ("steps", "decoded"),
    [
        ("s: {from: orders, select: [name]}", "id name at"),
        ("s: {from: orders, where: price is null, select: [id]}", "id price at"),
        ("s: {from: orders, with: {n: name}, select: [id]}", "id at"),
        ("s: {from: orders, with: {n: name}, select: [n]}", "id name at"),
        ("s: {from: orders, explode: {tag: tags}, select: [tag]}", "id tags at"),
        ("s: {from: orders, drop: [tags, extra]}", "id name price at"),
        ("t: {from: orders, select: [id, name]}\n  s: {from: t, select: [id]}", "id at"),
        ("s: {from: orders, select: {one: 1}}", "id at"),
    ],
)
def test_a_source_decodes_what_is_needed_and_what_was_promised(
    tmp_path: Path, steps: str, decoded: str
) -> None:
    text = f"{SOURCE}\nsteps:\n  {steps}\nsinks:\n  out: {{from: s, console: {{}}}}\n"
    source = plan_of(tmp_path, text).part("orders")
    assert isinstance(source, Source)
    assert source.decoded_columns == tuple(decoded.split())


def test_a_source_decodes_at_least_one_column(tmp_path: Path) -> None:
    text = """name: test
sources:
  s: {files: {path: a}, schema: {a: int, b: int}}
steps:
  t: {from: s, select: {x: 1}}
sinks:
  out: {from: t, console: {}}
"""
    source = plan_of(tmp_path, text).part("s")
    assert isinstance(source, Source)
    assert source.decoded_columns == ("a",)


SCHEMA = Schema((Field("k", BIGINT), Field("v", STRING), Field("list", Array(BIGINT))))


def project(**columns: str) -> Project:
    """Return a select of these columns."""
    computed = [ComputedColumn(n, type_expression(text, SCHEMA)) for n, text in columns.items()]
    return Project("select", tuple(computed), "")


def test_changes_pass_filters_and_projections_that_keep_the_key() -> None:
    kind = Upsert(("k",))
    filtered = infer_kind(Filter(type_expression("v is null", SCHEMA), ""), kind)
    assert filtered == replace(kind, has_deletes=True)
    assert infer_kind(project(v="v", k="k"), kind) == kind


@pytest.mark.parametrize(
    "operation",
    [
        project(v="v"),
        project(k="v"),
        Explode("x", type_expression("list", SCHEMA), False),
        Route(()),
    ],
)
def test_what_would_lose_the_key_of_a_change_is_refused(
    operation: Project | Explode | Route,
) -> None:
    with pytest.raises(ChangelogNotSupported):
        infer_kind(operation, Upsert(("k",)))
    assert infer_kind(operation, Append()) == Append()


def test_a_union_takes_no_upserts() -> None:
    assert infer_union_kind((Upsert(("k",)),)) == Upsert(("k",))
    with pytest.raises(ChangelogNotSupported):
        infer_union_kind((Append(), Upsert(("k",))))
    assert infer_union_kind((Append(), Retract(("k",)))) == Retract()


def test_changes_are_hashed_by_their_key_where_parallelism_changes() -> None:
    step = Step("s", (), (), "fail", (Stream("s", SCHEMA, Upsert(("k",)), True),), 2)
    sink = Sink("o", "s", "console", None, None, 3)  # type: ignore[arg-type]
    (edge,) = build_edges((step, sink))
    assert (edge.exchange, [key.name for key in edge.key]) == ("hash", ["k"])


def test_the_subtasks_of_sources_that_a_subtask_depends_on(tmp_path: Path) -> None:
    steps = (
        "  k: {from: orders, key: id, aggregate: {n: count(*)}}\n  l: {from: k, where: n > 1}\n"
        "  b: {from: orders, where: id > 1}\n"
    )
    sinks = (
        "sinks:\n  one: {from: l, console: {}, parallelism: 3}\n"
        "  two: {from: b, console: {}, parallelism: 3}\n"
    )
    plan = plan_of(tmp_path, f"settings: {{parallelism: 3}}\n{SOURCE}\nsteps:\n{steps}{sinks}")
    origins = find_origins(plan)
    each = [frozenset({("orders", at)}) for at in range(3)]
    assert list(origins["orders"]) == list(origins["two"]) == each
    assert set(origins["k"]) == set(origins["one"]) == {frozenset().union(*each)}


def test_what_is_computed_of_a_plan_is_that_of_this_plan(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f"settings: {{parallelism: 3}}\n{SOURCE}{FORKED}")
    assert list_subtask_ids(plan) is list_subtask_ids(plan)
    assert len(list_subtask_ids(plan)) == sum(task.parallelism for task in plan.tasks)
    smaller = replace(plan, tasks=plan.tasks[:1])
    assert len(list_subtask_ids(smaller)) == plan.tasks[0].parallelism
