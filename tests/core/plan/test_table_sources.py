"""Sources that are tables: their place in the plan, and errors in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.explain import explain
from tests.support.plans import plan_of, said

TEXT = """
    name: t
    sources:
      c:
        {source}
        schema: {{id: bigint, v: string, n: int, ok: boolean, m: "array<int>", at: timestamp{more}}}
        table: {table}
    steps:
      {steps}
    sinks:
      out: {{from: {read}, console: {{}}}}
"""


def text(
    table: str = "{key: id, sequence: n}",
    *,
    source: str = "files: {path: in}",
    steps: str = "s: {from: c, key: v, aggregate: {n: count(*)}}",
    read: str = "s",
    more: str = "",
) -> str:
    return TEXT.format(source=source, table=table, steps=steps, read=read, more=more)


def test_readers_of_a_table_read_its_newest_changes(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, text())
    steps = [part for part in plan if isinstance(part, nodes.Step)]
    assert [(step.name, step.inputs) for step in steps] == [
        ("c@table", ("c",)),
        ("c@retract", ("c@table",)),
        ("s", ("c@retract",)),
    ]
    direct = plan_of(tmp_path, text(steps="s: {from: c, where: n > 1}")).part("s")
    assert isinstance(direct, nodes.Step)
    assert direct.inputs == ("c@table",)
    sink = plan_of(
        tmp_path,
        text(steps="s: {from: c, where: n > 1}", read="c, console: {}}\n      more: {from: s"),
    ).part("out")
    assert isinstance(sink, nodes.Sink)
    assert sink.input == "c@table"


def test_explain_shows_the_order_of_changes_and_what_is_stored(tmp_path: Path) -> None:
    table = "{key: [id, v], sequence: n * 2, ttl: 30d}\n        event_time: at"
    shown = explain(plan_of(tmp_path, text(table)))
    assert "newest change by id, v, in the order of n * 2, ttl 30d for deletions" in shown
    assert "state keys, a table by id, v: sequence, place, deleted" in shown
    assert "changes of a table by id, v" in shown


@pytest.mark.parametrize(
    ("source", "by"),
    [
        ("files: {path: in}", "place"),
        ("kafka: {brokers: 'b:1', topic: t}", "arrival"),
        ("stdin: {}", "arrival"),
    ],
)
def test_without_a_sequence_state_is_needed_where_splits_share_keys(
    tmp_path: Path, source: str, by: str
) -> None:
    plan = plan_of(tmp_path, text("{key: id}", source=source))
    step = plan.part("c@table")
    assert isinstance(step, nodes.Step)
    (dedup,) = step.operations
    assert isinstance(dedup, nodes.Dedup)
    assert dedup.changes == nodes.ChangeOrder(by)  # type: ignore[arg-type]
    assert plan.streams["c"].has_row_order == (by == "place")


def test_columns_that_say_what_a_record_does_are_no_columns_of_rows(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, text(more=", _change: string"))
    assert "_change" not in plan.streams["c@table"].schema
    source = plan.part("c")
    assert isinstance(source, nodes.Source)
    assert {"_change", "id", "n"} <= {*source.decoded_columns}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("{key: idd}", '7: source "c": table.key: unknown column "idd" [did you mean "id"?]'),
        ("{key: [id, m]}", "table.key: wanted a column of a single value, got array<int>"),
        ("{key: []}", "table.key: wanted a column, or a list of columns, got an empty list"),
        ("{sequence: n}", 'missing key "key"'),
        ("{key: id, sequence: nn}", 'unknown column "nn" [did you mean "n"?]'),
        ("{key: id, sequence: m}", "table.sequence: wanted a number, a time or text, got array"),
        ("{key: id, sequence: ok}", "table.sequence: wanted a number, a time or text, got boolean"),
        ("{key: id, sequence: now()}", "the time at which a row is read does not order changes"),
        ("{key: id, sequence: \"'event_time'\"}", "the same value for all rows does not order"),
        ("{key: id, ttl: 1d}", 'table: "ttl" needs "sequence" [it is the time for which deletions'),
        ("{key: id, sequence: n, ttl: 1d}", "table: ttl goes by event time, but the source has"),
        ("{key: id, order: n}", 'table: unknown key "order"'),
        ("id", "table: wanted a mapping"),
    ],
)
def test_a_mistake_in_a_table_is_reported_where_it_is(
    tmp_path: Path, table: str, message: str
) -> None:
    (found,) = said(tmp_path, text(table))
    assert message in found


def test_aggregates_that_a_sequence_does_not_order_are_warned_of(tmp_path: Path) -> None:
    by_text = "{key: id, sequence: v}"
    listed = (
        "a: {from: c, where: n > 0}\n      s: {from: a, key: n, aggregate: {all: collect_list(v)}}"
    )
    assert said(tmp_path, text(steps=listed)) == []
    (found,) = said(tmp_path, text(by_text, steps=listed))
    assert 'collect_list(v) does not go by the sequence of "c", which is of type string' in found
    assert "min_by(x, v)" in found
    assert said(tmp_path, text(by_text, steps=listed.replace("collect_list", "max"))) == []


def test_aggregates_that_go_by_the_time_of_changes_are_warned_of(tmp_path: Path) -> None:
    table = "{key: id, sequence: n}"
    steps = (
        "g: {from: c, key: v, aggregate: {most: max(n)}}\n      h: {from: g, where: most > 1}\n"
        "      s: {from: h, key: most, aggregate: {all: last(v)}}"
    )
    (found,) = said(tmp_path, text(table, steps=steps))
    assert "last(v) goes by the time of the last change of each row" in found
    assert said(tmp_path, text(table, steps=steps.replace("last(v)", "max(v)"))) == []
    itself = "t: {from: c, top: {n: 2, by: n}}\n      s: {from: t, aggregate: {all: last(v)}}"
    assert said(tmp_path, text(table, steps=itself)) == []


def test_other_types_of_the_columns_of_changes_are_reported(tmp_path: Path) -> None:
    (found,) = said(tmp_path, text(more=", _change: int"))
    assert 'table: the column "_change" is string there, got int' in found


DEBEZIUM = "files: {path: in}\n        format: debezium_json"


def test_a_change_of_debezium_has_more_to_read_than_its_row(tmp_path: Path) -> None:
    table = "{key: id, sequence: source.lsn * 2}\n        event_time: timestamp_millis(ts_ms)"
    plan = plan_of(tmp_path, text(table, source=DEBEZIUM))
    source = plan.part("c")
    assert isinstance(source, nodes.Source)
    assert {*source.decoded_columns} == {"id", "v", "source", "ts_ms"}
    assert {"source", "ts_ms", "op"}.isdisjoint(plan.streams["c@table"].schema.names)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("{key: id, sequence: source.lns}", "lns"),
        ("{key: op}", 'table.key: unknown column "op"'),
        ("{key: id, sequence: source}", "table.sequence: wanted a number, a time or text, got str"),
        ("{key: id}\n        json: {epoch: ms}", '"json" has the options of format: json'),
        (
            "{key: id}\n        debezium_json: {epoch: s}",
            "debezium_json.epoch: wanted ms, us or ns",
        ),
    ],
)
def test_a_mistake_in_a_source_of_debezium_is_reported(
    tmp_path: Path, table: str, message: str
) -> None:
    (found,) = said(tmp_path, text(table, source=DEBEZIUM))
    assert message in found


def test_debezium_is_read_into_tables_only(tmp_path: Path) -> None:
    whole = text(source=DEBEZIUM).replace("table: {key: id, sequence: n}", "on_error: skip")
    (found,) = said(tmp_path, whole)
    assert 'debezium_json has changes of a table: "table" is missing' in found
    sink = text().replace("console: {}", "files: {path: out}, format: debezium_json")
    (found,) = said(tmp_path, sink)
    assert 'format: wanted json, csv, parquet or raw with "files", got "debezium_json"' in found


def test_steps_that_take_no_changes_say_so(tmp_path: Path) -> None:
    window = "s: {from: c, window: {count: 3}, aggregate: {n: count(*)}}"
    (found,) = said(tmp_path, text(steps=window))
    assert "a count window does not take a stream of changes" in found
    (found,) = said(tmp_path, text(steps="s: {from: c, where: n > 1, event_time: at}"))
    assert "event_time of changes needs the watermarks of their sources" in found
