"""The versions of a table's rows, which `as_of` reads: the steps for them, and what has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.explain import explain
from headrace.core.plan.nodes import Plan
from headrace.core.plan.nodes.matching import AsOfMatch
from tests.support.plans import plan_of, said

TEXT = """
    name: t
    sources:
      o: {{files: {{path: o}}, schema: {{id: bigint, at: timestamp}}, event_time: at}}
      c:
        files: {{path: in}}
        schema: {{id: bigint, v: string, n: int, at: timestamp}}
        event_time: at
        on_error: skip
        {table}
    steps:
      {steps}
    sinks:
      out: {{from: s, console: {{}}}}
"""
JOIN = "s: {join: {left: o, right: RIGHT, on: ON, as_of: true}, select: {id: o.id, v: v}}"


def text(
    steps: str = "",
    *,
    right: str = "c",
    on: str = "o.id = c.id",
    table: str = "table: {key: id, sequence: n}",
) -> str:
    join = JOIN.replace("RIGHT", right).replace("ON", on)
    return TEXT.format(table=table, steps=f"{steps}\n      {join}" if steps else join)


def inputs(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {part.name: part.inputs for part in plan if isinstance(part, nodes.Step)}


def test_as_of_reads_the_changes_of_a_source_and_nothing_orders_them_before(
    tmp_path: Path,
) -> None:
    plan = plan_of(tmp_path, text())
    assert inputs(plan) == {"s": ("o", "c")}
    step, source = plan.part("s"), plan.part("c")
    assert isinstance(step, nodes.Step)
    assert isinstance(source, nodes.Source)
    assert source.table is not None
    assert source.table.has_versions
    (join, _) = step.operations
    assert isinstance(join, nodes.Join)
    assert isinstance(join.matching, AsOfMatch)
    assert join.matching.sequence is not None
    assert step.outputs[0].kind == nodes.Append()
    shown = explain(plan)
    assert "as of: the latest c that is not later, at the same time by n" in shown
    assert "state right, runs by time, id: v, sequence" in shown


def test_other_readers_of_the_table_still_read_its_newest_changes(tmp_path: Path) -> None:
    more = "n: {from: c, key: v, aggregate: {n: count(*)}}"
    one = text(more).replace("out: {", "n_out: {from: n, console: {}}\n      out: {")
    assert inputs(plan_of(tmp_path, one)) == {
        "c@table": ("c",),
        "c@retract": ("c@table",),
        "n": ("c@retract",),
        "s": ("o", "c"),
    }


def test_filters_and_projections_of_a_table_are_applied_to_all_versions(tmp_path: Path) -> None:
    some = "some: {from: c, where: n > 1, with: {w: n + 1}}"
    plan = plan_of(tmp_path, text(some, right="{from: some, as: c}"))
    assert inputs(plan) == {"some@versions": ("c",), "s": ("o", "some@versions")}


def test_as_of_reads_the_rows_in_front_of_a_dedup(tmp_path: Path) -> None:
    last = "last: {from: c, where: n > 1, dedup: {key: id, keep: last}}"
    plan = plan_of(tmp_path, text(last, right="{from: last, as: c}", table=""))
    assert inputs(plan) == {"last@versions": ("c",), "s": ("o", "last@versions")}


ALIAS = "{from: x, as: c}"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "x: {from: c, key: id, aggregate: {v: max(v)}}",
            "as_of does not take a stream of changes (upserts of id): only the last of several",
        ),
        ("x: {from: c, select: [v, id]}\n      y: {from: x, drop: id}", "retract"),
        (
            "x: {from: c, dedup: {key: id, keep: last, order: event_time}}",
            "as_of does not take a stream of changes (upserts of id)",
        ),
        (
            "x: {from: c, on_error: skip, where: raise_error(v) is null}",
            'as_of does not take the rows of "x", because on_error leaves some out',
        ),
    ],
)
def test_streams_whose_earlier_rows_are_not_known_are_rejected(
    tmp_path: Path, steps: str, message: str
) -> None:
    if message == "retract":
        found = said(tmp_path, text(steps, right="{from: y, as: c}", on="o.id = length(c.v)"))
        message = "as_of does not take a stream of changes: only the last of several changes"
    else:
        found = said(tmp_path, text(steps, right=ALIAS))
    assert any(message in line for line in found), found


def test_a_filter_of_a_dedup_is_a_condition_of_the_join(tmp_path: Path) -> None:
    last = "last: {from: c, dedup: {key: id, keep: last}}\n      x: {from: last, where: n > 1}"
    found = said(tmp_path, text(last, right=ALIAS, table=""))
    assert any("write the condition into on" in line for line in found), found
    on = "o.id = c.id and c.n > 1"
    followed = text(last.split("\n")[0], right="{from: last, as: c}", on=on, table="")
    assert "last@versions" in inputs(plan_of(tmp_path, followed))


def test_the_key_of_the_table_is_compared_and_nothing_else(tmp_path: Path) -> None:
    for on in ("o.id = c.n", "o.id = c.id and o.id = c.n", "o.id = c.id + 1"):
        found = said(tmp_path, text(on=on))
        assert any(
            '"c" is a stream of changes (upserts of id), but is joined by other columns'
            " [on: compares its key and no other column: id" in line
            for line in found
        ), found
    plan_of(tmp_path, text(on="c.id = o.id and c.n < o.id"))


def test_a_table_on_the_left_side_is_rejected(tmp_path: Path) -> None:
    other = "s: {join: {left: c, right: o, on: o.id = c.id, as_of: true}, select: {id: o.id}}"
    found = said(tmp_path, TEXT.format(table="table: {key: id}", steps=other))
    assert any(
        "as_of does not take a stream of changes (upserts of id) on its left side"
        " [without as_of it joins the rows that are there]" in line
        for line in found
    ), found
    plan_of(
        tmp_path,
        TEXT.format(
            table="table: {key: id}",
            steps=other.replace("as_of", "emit").replace("emit: true", "type: left"),
        ),
    )


def test_late_changes_of_a_table_are_rows_that_say_what_they_did(tmp_path: Path) -> None:
    late = text().replace("as_of: true", "as_of: true, late_to: {right: late}")
    late = late.replace("out: {", "late_out: {from: late, console: {}}\n      out: {")
    plan = plan_of(tmp_path, late)
    assert plan.streams["late"].schema.names == ("id", "v", "n", "at", "_change")
    assert plan.streams["late"].kind == nodes.Append()
