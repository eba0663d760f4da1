"""The columns that keyed steps read of their input, and whether its rows carry a row order."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from tests.support.plans import SOURCE, over_orders, plan_of


def planned(folder: Path, step: str) -> Plan:
    return plan_of(folder, over_orders(step))


def decoded(plan: Plan) -> tuple[str, ...]:
    source = plan.part("orders")
    assert isinstance(source, nodes.Source)
    return source.decoded_columns


@pytest.mark.parametrize(
    ("step", "columns"),
    [
        ("key: name, window: {tumble: 1s}, aggregate: {n: count(*)}", "id name at"),
        ("aggregate: {n: sum(price) filter (where extra = 'x')}", "id price at extra"),
        (
            "key: {k: upper(name)}, aggregate: {n: max(id)}, having: n > 1, select: [k]",
            "id name at",
        ),
        ("window: {tumble: 1s, late_to: late}, aggregate: {n: count(*)}", None),
        ("key: name, top: {n: 1, by: price}, select: [name, rank]", "id name price at"),
        ("dedup: {key: name}, select: [extra]", "id name at extra"),
        ("dedup: {key: name, order: event_time}, select: [extra]", "id name at extra"),
        ("dedup: {key: name, order: event_time, late_to: late}, select: [extra]", None),
    ],
)
def test_only_what_a_keyed_step_reads_is_decoded(
    tmp_path: Path, step: str, columns: str | None
) -> None:
    wanted = columns.split() if columns else ["id", "name", "price", "tags", "at", "extra"]
    assert decoded(planned(tmp_path, step)) == tuple(wanted)


def ordered(plan: Plan) -> set[str]:
    return {name for name, stream in plan.streams.items() if stream.has_row_order}


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ("aggregate: {n: count(*), m: max(id)}", set()),
        ("aggregate: {n: first(id)}", {"orders"}),
        ("window: {tumble: 1s, evict: {last: 3}}, aggregate: {n: count(*)}", {"orders"}),
        ("top: {n: 1, by: id}", {"orders"}),
        ("dedup: {key: id}", set()),
        ("dedup: {key: id, order: event_time}", {"orders"}),
        ("where: id > 1", set()),
    ],
)
def test_rows_carry_their_place_only_where_order_matters(
    tmp_path: Path, step: str, names: set[str]
) -> None:
    assert ordered(planned(tmp_path, step)) == names


def test_the_place_of_a_row_comes_from_the_source_or_from_the_aggregate_before(
    tmp_path: Path,
) -> None:
    text = f"""{SOURCE}
  more: {{files: {{path: m}}, schema: {{id: bigint, name: string}}}}
  rest: {{files: {{path: r}}, schema: {{id: bigint, name: string}}}}
steps:
  picked: {{from: more, where: id > 1}}
  both: {{from: [picked, rest], dedup: {{key: id}}}}
  firsts: {{from: both, key: id, aggregate: {{f: first(name)}}}}
  sums: {{from: orders, window: {{tumble: 1s, late_to: late}}, aggregate: {{n: sum(id)}}}}
  last: {{from: sums, window: {{tumble: 1h}}, aggregate: {{n: last(n)}}}}
sinks:
  a: {{from: firsts, console: {{}}}}
  b: {{from: last, console: {{}}}}
  c: {{from: late, console: {{}}}}
"""
    assert ordered(plan_of(tmp_path, text)) == {"more", "rest", "picked", "both", "sums"}


def test_late_rows_keep_the_place_that_they_came_with(tmp_path: Path) -> None:
    text = f"""{SOURCE}
steps:
  sums: {{from: orders, window: {{tumble: 1s, late_to: late}}, aggregate: {{n: sum(id)}}}}
  last: {{from: late, aggregate: {{n: last(id)}}}}
sinks:
  a: {{from: sums, console: {{}}}}
  b: {{from: last, console: {{}}}}
"""
    assert ordered(plan_of(tmp_path, text)) == {"late", "orders"}
