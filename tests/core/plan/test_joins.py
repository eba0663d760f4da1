"""Joins in plans: which rows match, the names of their columns, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.join_kinds import infer_join_kind
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    ChangelogMatch,
    IntervalMatch,
    JoinMatching,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Ttl, Tumble, Window
from tests.support.plans import SOURCE, UNTIMED, plan_of, said

SECOND_US = 1_000_000
SOURCES = f"""{SOURCE}{UNTIMED}\
  payments:
    files: {{path: q.jsonl, ordered: true}}
    schema: {{order: int, paid: double, name: string, at: timestamp}}
    event_time: at
"""
MORE = """\
  paid: {from: payments, dedup: {key: order, keep: last}}
  now: {from: orders, dedup: {key: id, keep: last}}
"""
ON = "left: orders, right: payments, on: 'orders.id = payments.order'"
NOW = "left: now, right: paid, on: 'now.id = paid.order'"


def over_both(step: str) -> str:
    """Return a pipeline of one step over orders, payments, and the changes of both."""
    late = "".join(
        f"  out_{name}: {{from: {name}, console: {{}}}}\n"
        for name in ("late_left", "late_right")
        if name in step
    )
    return (
        f"{SOURCES}steps:\n{MORE}  s: {{{step}}}\n"
        f"sinks:\n  out: {{from: s, console: {{}}}}\n{late}"
        "  a: {from: paid, console: {}}\n  b: {from: now, console: {}}\n"
        "  c: {from: plain, console: {}}\n"
    )


def step_of(tmp_path: Path, step: str) -> nodes.Step:
    part = plan_of(tmp_path, over_both(step)).part("s")
    assert isinstance(part, nodes.Step)
    return part


def join_of(step: nodes.Step) -> nodes.Join:
    join = step.operations[0]
    assert isinstance(join, nodes.Join)
    return join


@pytest.mark.parametrize(
    ("join", "matching"),
    [
        ("within: [-10s, 5s]", IntervalMatch(-10 * SECOND_US, 5 * SECOND_US)),
        ("within: 5s", IntervalMatch(-5 * SECOND_US, 5 * SECOND_US)),
        ("ttl: 1s", IntervalMatch(-SECOND_US, SECOND_US)),
        (
            "ttl: {after: 1s, time: processing}",
            IntervalMatch(-SECOND_US, SECOND_US, uses_processing_time=True),
        ),
        ("type: inner", IntervalMatch()),
        ("as_of: true", AsOfMatch()),
        ("as_of: true, ttl: 1s", AsOfMatch(SECOND_US)),
        ("type: left}, window: {tumble: 1s", WindowMatch(Window(Tumble(SECOND_US)))),
    ],
)
def test_what_says_which_rows_meet(tmp_path: Path, join: str, matching: JoinMatching) -> None:
    step = step_of(tmp_path, f"join: {{{ON}, {join}}}, select: [id, paid]")
    assert join_of(step).matching == matching


def test_two_streams_of_changes_meet_by_what_there_is_now(tmp_path: Path) -> None:
    step = step_of(tmp_path, f"join: {{{NOW}, ttl: 1s}}, select: [id, paid]")
    assert join_of(step).matching == ChangelogMatch(Ttl(SECOND_US), (("id",), ("order",)))
    assert step.outputs[0].kind == nodes.Upsert(("id",), has_deletes=True)


@pytest.mark.parametrize(
    ("type", "key"),
    [
        ("inner", ("id",)),
        ("left", ("id",)),
        ("right", ("order",)),
        ("full", ("id", "order")),
        ("semi", ("id",)),
    ],
)
def test_the_key_of_joined_changes_is_all_that_tells_them_apart(
    tmp_path: Path, type: str, key: tuple[str, ...]
) -> None:
    columns = ", ".join(key)  # the other is read by nothing, so it is not in the plan
    step = step_of(tmp_path, f"join: {{{NOW}, type: {type}}}, select: [{columns}]")
    expected = nodes.Upsert(key, has_deletes=True)
    assert step.outputs[0].kind == expected
    assert (
        infer_join_kind(join_of(step), nodes.Upsert(("id",)), nodes.Upsert(("order",))) == expected
    )


def test_a_key_may_be_handed_on_under_another_name(tmp_path: Path) -> None:
    step = step_of(tmp_path, f"join: {{{NOW}}}, select: {{number: id, paid: paid}}")
    assert step.outputs[0].kind == nodes.Upsert(("number",), has_deletes=True)


def test_both_sides_have_keys_of_one_type_and_columns_of_their_own(tmp_path: Path) -> None:
    step = step_of(tmp_path, f"join: {{{ON}}}, select: {{a: orders.name, b: payments.name, x: id}}")
    join = join_of(step)
    assert [str(k.value.type) for key in join.keys for k in key] == ["bigint", "bigint"]
    assert [c.name for c in join.left.columns] == ["id", "orders.name"]
    assert [c.name for c in join.right.columns] == ["payments.name"]
    assert step.outputs[0].schema.names == ("a", "b", "x")


def test_what_is_no_equality_is_a_condition_of_its_own(tmp_path: Path) -> None:
    on = "id = order and paid > price and lower(orders.name) = payments.name"
    written = f"join: {{left: orders, right: payments, on: '{on}', within: 1s}}, select: [id]"
    join = join_of(step_of(tmp_path, written))
    assert len(join.left.key) == 2
    assert join.residual_filter is not None
    assert {c.name for c in join.left.columns} == {"id", "price"}


def test_a_cast_that_makes_one_of_two_values_is_no_equality_of_keys(tmp_path: Path) -> None:
    on = "on: 'cast(now.id as string) = cast(paid.order as string)'"
    step = step_of(tmp_path, f"join: {{left: now, right: paid, {on}}}, select: [id, order]")
    assert step.outputs[0].kind == nodes.Upsert(("id", "order"), has_deletes=True)


def test_what_is_never_true_is_a_condition_as_well(tmp_path: Path) -> None:
    join = "left: orders, right: payments, on: id = order and null, within: 1s"
    only = join_of(step_of(tmp_path, f"join: {{{join}}}, select: [id]")).residual_filter
    assert only is not None
    assert str(only.condition.type) == "boolean"


def test_keys_are_called_differently(tmp_path: Path) -> None:
    text = f"{SOURCE}  keys: {{files: {{path: k}}, schema: {{key2: bigint, x: string}}}}\n"
    join = "left: {from: keys, as: a}, right: {from: keys, as: b}"
    on = "a.key2 = b.key2 and lower(a.x) = lower(b.x)"
    steps = f"steps:\n  s: {{join: {{{join}, on: '{on}'}}, select: [a.x]}}\n"
    sinks = "sinks:\n  o: {from: s, console: {}}\n  p: {from: orders, console: {}}\n"
    step = plan_of(tmp_path, text + steps + sinks).part("s")
    assert isinstance(step, nodes.Step)
    assert [key.name for key in join_of(step).left.key] == ["key2", "key2_"]


def test_unmatched_rows_may_be_null(tmp_path: Path) -> None:
    step = step_of(tmp_path, f"join: {{{ON}, type: full, within: 1s}}, select: [id, paid]")
    assert [field.nullable for field in step.outputs[0].schema] == [True, True]
    step = step_of(tmp_path, f"join: {{{ON}, type: left, within: 1s}}, select: [id, paid]")
    assert [field.nullable for field in step.outputs[0].schema] == [False, True]


def test_a_stream_may_be_joined_with_itself(tmp_path: Path) -> None:
    join = "left: {from: orders, as: a}, right: {from: orders, as: b}, on: a.id = b.id, within: 1s"
    step = step_of(tmp_path, f"join: {{{join}}}, select: [a.id, b.name]")
    assert step.inputs == ("orders", "orders")
    assert step.outputs[0].schema.names == ("id", "name")


def test_late_rows_of_each_side_are_streams_of_their_columns(tmp_path: Path) -> None:
    late = "late_to: {left: late_left, right: late_right}"
    step = step_of(tmp_path, f"join: {{{ON}, within: 1s, {late}}}, select: [id]")
    streams = {stream.name: stream.schema.names for stream in step.outputs}
    assert streams["late_left"] == ("id", "name", "price", "tags", "at", "extra")
    assert streams["late_right"] == ("order", "paid", "name", "at")


def test_each_input_is_dealt_out_by_its_own_key(tmp_path: Path) -> None:
    text = over_both(f"join: {{{ON}, within: 1s}}, parallelism: 3, select: [id]")
    edges = [edge for edge in plan_of(tmp_path, text).edges if edge.consumer == "s"]
    assert [(edge.stream, edge.exchange, edge.side) for edge in edges] == [
        ("orders", "hash", 0),
        ("payments", "hash", 1),
    ]
    assert [[key.name for key in edge.key] for edge in edges] == [["id"], ["key1"]]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (f"join: {{{ON}}}", '"name", "at" are in both inputs [choose one in select: {name: ord'),
        (f"join: {{{ON}, within: [5s, -10s]}}", 'at most -10s, got "5s" [the smaller one first'),
        (
            f"join: {{{ON}, window: {{tumble: 1s}}}}",
            'join: unknown key "window" [it belongs next to "join": window: ...]',
        ),
        (f"join: {{{ON}, within: 10}}", "wanted a duration such as 10s"),
        (f"join: {{{ON}, within: [1s]}}", "wanted two durations, as in [-10s, 5s], got a list"),
        (f"join: {{{ON}, within: 10s, ttl: 1h}}", '"ttl" does not go with "within"'),
        (f"join: {{{ON}, as_of: true, within: 1s}}", '"as_of" does not go with "within" [say one'),
        (f"join: {{{ON}, as_of: true, type: full}}", "as_of is for inner and left joins, got full"),
        (f"join: {{{ON}, type: outer}}", 'semi or anti, got "outer" [did you mean "full"?]'),
        (f"join: {{{ON}, late_to: {{left: late_left}}}}", "needs within, as_of, ttl or window"),
        (
            f"join: {{{ON}, emit: at_once}}",
            "at_once is for left, right, full, anti joins, got inner",
        ),
        (
            f"join: {{{ON}, type: left, within: 1s, emit: at_once}}",
            "at_once does not go with within [leave it out, or let rows match without a limit",
        ),
        (
            f"join: {{{ON}, type: left, emit: at_once}}, window: {{tumble: 1s}}",
            "at_once does not go with window",
        ),
        (f"join: {{{ON}, within: 1s, late_to: late_left}}", "[write late_to: {left: late_left}]"),
        (f"join: {{{ON}}}, window: {{count: 3}}", '"count" does not go with "join"'),
        (f"join: {{{ON}}}, window: {{tumble: 1s, trigger: {{count: 1}}}}", '"trigger" does not go'),
        (f"join: {{{ON}, type: left}}, window: {{tumble: 1s, lateness: 1s}}", "is for inner joins"),
        (f"join: {{{ON}}}, key: id", '"key" does not go with "join" [on has the key of a join]'),
        (f"join: {{{ON}}}, ttl: 1h", "[it belongs inside: join: {ttl: ...}]"),
        (f"join: {{{ON}}}, aggregate: {{n: count(*)}}", '"aggregate" does not go with "join"'),
        (
            f"from: orders, join: {{{ON}}}",
            '"from" does not go with "join" [the step reads the',
        ),
        (f"join: {{{ON}}}, where: name = 'x'", "is a column of orders and payments [write orders."),
        (f"join: {{{ON}}}, select: [orders.name, payments.name]", 'would be called "name"'),
        (f"join: {{{ON}}}, select: [orders.nam]", 'unknown column "nam" of orders [did you mean'),
        ("join: {left: orders, right: payments}", 'join: missing key "on"'),
        ("join: orders", "[write join: {left: orders, right: ..., on: ...}]"),
        ("join: {left: orders, right: payments, on: id}", "wanted a condition (boolean)"),
        ("join: {left: orders, right: payments, on: id > order}", "wanted an equality between"),
        ("join: {left: orders, right: payments, on: id = ordr}", 'did you mean "order"?'),
        ("join: {left: orders, right: payment, on: id = order}", 'did you mean "payments"?'),
        ("join: {left: orders, right: payments, on: orders.at = order}", "cannot compare"),
        (
            "join: {left: orders, right: payments, on: orders.order = payments.id}",
            'unknown column "order" of orders [write payments.order]',
        ),
        (
            "join: {left: orders, right: payments, on: id = payment.order}",
            'unknown input "payment" [did you mean "payments"?]',
        ),
        (
            "join: {left: {from: orders, as: o}, right: payments, on: orders.id = order}",
            'unknown input "orders" [write o.id]',
        ),
        (
            f"join: {{{ON}}}, select: {{x: order.id}}",
            'no field "id": int has no fields [write orders.id]',
        ),
        (
            f"join: {{{ON}, within: 1s, late_to: {{right: nobody}}}}, select: [id]",
            'nothing reads "nobody" [add a sink with from: nobody]',
        ),
        (
            "join: {left: orders, right: payments, on: id = order and now() > date '2026-01-01'}",
            "no p",
        ),
        ("join: {left: orders, right: orders, on: id = id}", "{from: orders, as: other}"),
        (
            "join: {left: orders, right: plain, on: orders.id = plain.id, as_of: true}",
            'as_of goes by event time, but the right input "plain" has none',
        ),
        (
            "join: {left: orders, right: plain, on: orders.id = plain.id, ttl: 1h}",
            "or ttl: {after: ..., time: processing}",
        ),
        (
            "join: {left: paid, right: orders, on: id = order, as_of: true}, select: [id]",
            "as_of does not take a stream of changes (upserts of order) on its left side",
        ),
        (
            "from: orders, broadcast: {rules: paid, on: id > order}, select: [id]",
            "a broadcast in event time does not take a stream of changes",
        ),
        (
            "join: {left: orders, right: payments, on: id = order, type: semi}, select: [paid]",
            'unknown column "paid" [did you mean "id"?'
            " (semi and anti joins keep only the left columns)]",
        ),
        (
            f"join: {{{ON}, type: anti}}, select: [payments.paid]",
            "no columns of payments are left: semi and anti joins keep only the left columns",
        ),
        (
            "join: {left: {from: orders, as: a}, right: {from: orders, as: b}, on: a.tags=b.tags}",
            "wanted a key of a single value, got array<string>",
        ),
        (
            "join: {left: orders, right: paid, on: id = order, within: 1s}, select: [id]",
            "a join in time does not take a stream of changes",
        ),
        (
            "join: {left: orders, right: paid, on: id = order, ttl: {after: 1h, time: processing}}",
            "join: ttl by the wall clock goes with changes only if both inputs are upserts, joined "
            "by columns of their keys [leave out time: processing]",
        ),
    ],
)
def test_mistakes(tmp_path: Path, step: str, message: str) -> None:
    found = said(tmp_path, over_both(step))
    assert any(message in line for line in found), found


@pytest.mark.parametrize(
    ("step", "kind", "inputs"),
    [
        (f"join: {{{NOW}}}, select: [now.id]", nodes.Upsert(("id",), True), ("now", "paid")),
        (
            f"join: {{{NOW}}}, select: [paid]",
            nodes.Retract(),
            ("now@retract", "paid@retract"),
        ),
        (
            "join: {left: now, right: paid, on: now.name = paid.name}, select: [now.id]",
            nodes.Retract(),
            ("now@retract", "paid@retract"),
        ),
        (
            "join: {left: now, right: paid, on: now.name = paid.name}, select: [now.id, order]",
            nodes.Retract(("id", "order")),
            ("now@retract", "paid@retract"),
        ),
        (
            "join: {left: orders, right: paid, on: id = order}, select: [id, paid]",
            nodes.Retract(),
            ("orders", "paid@retract"),
        ),
        (
            "join: {left: paid, right: orders, on: id = order, type: anti}, select: [order]",
            nodes.Retract(("order",)),
            ("paid@retract", "orders"),
        ),
        (
            "join: {left: now, right: paid, on: length(now.name) = order, type: left}, "
            "select: [now.id, paid]",
            nodes.Retract(("id",)),
            ("now@retract", "paid@retract"),
        ),
    ],
)
def test_a_join_of_changes_by_other_columns_joins_the_rows_that_are_there(
    tmp_path: Path, step: str, kind: nodes.StreamKind, inputs: tuple[str, ...]
) -> None:
    part = step_of(tmp_path, step)
    assert (part.outputs[0].kind, part.inputs) == (kind, inputs)
    matching = join_of(part).matching
    assert isinstance(matching, ChangelogMatch if inputs == ("now", "paid") else TableMatch)


def test_a_join_for_ever_of_what_never_ends_is_warned_of(tmp_path: Path) -> None:
    endless = "generate: {columns: {id: id, order: id}, rate: 10/s}"
    text = f"""name: test
sources:
  a: {{{endless}}}
  b: {{{endless}}}
steps:
  s: {{join: {{left: a, right: b, on: a.id = b.id}}, select: [a.id]}}
sinks:
  out: {{from: s, console: {{}}}}
"""
    assert said(tmp_path, text) == [
        '6: step "s": the rows of both inputs are stored forever '
        "[ttl: 1h drops rows that long after their event time]"
    ]


def test_a_join_of_changes_by_other_columns_with_a_ttl_has_no_key(tmp_path: Path) -> None:
    step = "join: {left: orders, right: paid, on: orders.name = paid.name, ttl: 1h}, select: [id]"
    plan = plan_of(tmp_path, over_both(step))
    joined = plan.part("s")
    assert isinstance(joined, nodes.Step)
    assert joined.inputs == ("orders", "paid@retract")
    join = joined.operations[0]
    assert isinstance(join, nodes.Join)
    assert join.matching == TableMatch(3600 * SECOND_US)
    assert plan.streams["s"].kind == nodes.Retract()


def test_a_ttl_goes_by_times_of_rows_and_not_of_changes(tmp_path: Path) -> None:
    text = over_both("join: {left: first, right: paid, on: first.name = paid.name, ttl: 1h}")
    text = text.replace("steps:", "steps:\n  first: {from: orders, key: name, top: {n: 1, by: id}}")
    assert any(
        "ttl goes by the event time of rows, but rows of an aggregate, a top or a join by keys "
        "have that of their last change" in line
        for line in said(tmp_path, text)
    ), said(tmp_path, text)
