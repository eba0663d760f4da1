"""Keyed steps in the plan: their output columns, the kinds of their streams, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.core.plan.nodes.windows import (
    Count,
    Cumulate,
    Evict,
    Global,
    Session,
    Slide,
    Trigger,
    Ttl,
    Tumble,
    Window,
)
from tests.support.plans import SOURCE, UNTIMED, over_orders, plan_of, said

S = 1_000_000


def planned(folder: Path, step: str) -> Plan:
    return plan_of(folder, over_orders(step))


def operation(folder: Path, step: str) -> nodes.Operation:
    part = planned(folder, step).part("s")
    assert isinstance(part, nodes.Step)
    return next(each for each in part.operations if isinstance(each, nodes.KeyedOperation))


@pytest.mark.parametrize(
    ("step", "schema", "kind"),
    [
        (
            "key: name, window: {tumble: 10s}, aggregate: {n: count(*), total: sum(price)}",
            "name string, window_start timestamp not null, window_end timestamp not null, "
            "n bigint not null, total decimal(20,2)",
            "append",
        ),
        (
            "key: [id, name], window: {session: 10s, lateness: 1s}, aggregate: {n: max(at)}",
            "id bigint not null, name string, window_start timestamp not null, "
            "window_end timestamp not null, n timestamp",
            "upsert(id, name, window_start, window_end) with deletes",
        ),
        (
            "key: {day: to_date(at)}, window: {count: 10}, aggregate: {n: first(id)}",
            "day date, n bigint",
            "append",
        ),
        (
            "window: {global: true, trigger: {count: 10}}, key: id, aggregate: {n: count(*)}",
            "id bigint not null, n bigint not null",
            "upsert(id)",
        ),
        (
            "window: {tumble: 1s, trigger: {count: 10}, accumulate: false}, key: id, "
            "aggregate: {n: count(*)}, select: [n]",
            "n bigint not null",
            "append",
        ),
        ("aggregate: {n: count(*), m: avg(id) + 1}", "n bigint not null, m double", "upsert()"),
        ("key: id, aggregate: {n: max(id) + id}", "id bigint not null, n bigint", "upsert(id)"),
        (
            "key: name, aggregate: {n: count(*)}, having: n > 1, with: {id: id + 1}, ttl: 1h",
            "name string, n bigint not null",
            "upsert(name) with deletes",
        ),
        (
            "key: name, window: {tumble: 1s}, top: {n: 1, by: id}, select: [rank, id, name]",
            "rank int not null, id bigint not null, name string",
            "append",
        ),
        (
            "key: name, top: {n: 1, by: id}, select: [rank, id, name]",
            "rank int not null, id bigint not null, name string",
            "upsert(name, rank)",
        ),
        ("dedup: {key: {d: to_date(at)}}, select: [id]", "id bigint not null", "append"),
        (
            "dedup: {key: [id, name], keep: last}, select: [id, name]",
            "id bigint not null, name string",
            "upsert(id, name)",
        ),
    ],
)
def test_what_comes_out_of_a_keyed_step(tmp_path: Path, step: str, schema: str, kind: str) -> None:
    stream = planned(tmp_path, step).streams["s"]
    assert (str(stream.schema), str(stream.kind)) == (schema, kind)
    assert stream.has_event_time


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("{tumble: 10s, offset: 3s}", Window(Tumble(10 * S, 3 * S))),
        ("{slide: 10s, every: 2s, offset: 1s}", Window(Slide(10 * S, 2 * S, S))),
        ("{cumulate: 1h, every: 1m}", Window(Cumulate(3600 * S, 60 * S))),
        ("{session: 250ms}", Window(Session(250_000))),
        ("{count: 1k}", Window(Count(1000, 1000))),
        ("{count: 100, every: 10}", Window(Count(100, 10))),
        ("global", Window(Global())),
        ("{global: true}", Window(Global())),
        (
            "{tumble: 1s, lateness: 5s, late_to: late}",
            Window(Tumble(S), lateness_us=5 * S, late_to="late"),
        ),
        ("{tumble: 1s, time: processing}", Window(Tumble(S), uses_processing_time=True)),
        (
            "{tumble: 1s, trigger: {every: 1s, time: processing}, accumulate: false}",
            Window(Tumble(S), trigger=Trigger(S, None, True), keeps_rows=False),
        ),
        (
            "{global: true, trigger: {count: 5}, evict: {last: 2}}",
            Window(Global(), trigger=Trigger(None, 5), evict=Evict(last=2)),
        ),
        ("{session: 1s, evict: {within: 1s}}", Window(Session(S), evict=Evict(within_us=S))),
    ],
)
def test_a_window_as_it_is_written(tmp_path: Path, written: str, window: Window) -> None:
    made = operation(tmp_path, f"window: {written}, aggregate: {{n: count(*)}}")
    assert isinstance(made, nodes.Aggregate)
    assert made.window == window


@pytest.mark.parametrize(
    ("step", "ttl"),
    [
        ("key: id, aggregate: {n: count(*)}, ttl: 1h", Ttl(3600 * S)),
        ("key: id, top: {n: 1, by: id}, ttl: {after: 1m}", Ttl(60 * S)),
        (
            "key: id, aggregate: {n: count(*)}, ttl: {after: 1m, time: processing}",
            Ttl(60 * S, True),
        ),
        ("dedup: {key: id, ttl: 1m, time: processing}", Ttl(60 * S, True)),
        ("dedup: {key: id}", None),
    ],
)
def test_a_ttl_as_it_is_written(tmp_path: Path, step: str, ttl: Ttl | None) -> None:
    made = operation(tmp_path, step)
    assert isinstance(made, nodes.KeyedOperation)
    assert made.ttl == ttl


@pytest.mark.parametrize(
    ("written", "descending", "nulls_last"),
    [
        ("id", False, False),
        ("id desc", True, True),
        ("id ASC", False, False),
        ("id + 1 nulls last", False, True),
        ("id desc nulls first", True, False),
        ("'greatest(id, length(name)) desc'", True, True),
    ],
)
def test_a_ranking_as_it_is_written(
    tmp_path: Path, written: str, descending: bool, nulls_last: bool
) -> None:
    made = operation(tmp_path, f"top: {{n: 2, by: [{written}, name]}}")
    assert isinstance(made, nodes.Top)
    first, second = made.by
    assert (first.descending, first.nulls_last) == (descending, nulls_last)
    assert (second.descending, second.nulls_last, made.rows) == (False, False, 2)


@pytest.mark.parametrize(
    "step",
    [
        "window: {tumble: 1s, time: processing}, aggregate: {n: count(*)}",
        "window: {session: 1s, time: processing}, top: {n: 1, by: id}",
        "window: {count: 9}, aggregate: {n: count(*)}",
        "window: global, aggregate: {n: count(*)}",
        "aggregate: {n: count(*)}, ttl: {after: 1s, time: processing}",
        "dedup: {key: id, ttl: 1s, time: processing}",
    ],
)
def test_rows_without_an_event_time_get_none_where_nothing_says_how_far_it_is(
    tmp_path: Path, step: str
) -> None:
    steps = f"steps:\n  s: {{from: plain, {step}}}\n"
    text = f"name: t\nsources:\n{UNTIMED}{steps}sinks:\n  a: {{from: s, console: {{}}}}\n"
    assert plan_of(tmp_path, text).streams["s"].has_event_time is False


def test_late_rows_are_a_stream_with_the_columns_of_the_input(tmp_path: Path) -> None:
    step = "where: id > 1, window: {tumble: 1s, late_to: late}, aggregate: {n: count(*)}"
    plan = planned(tmp_path, step)
    part, late = plan.part("s"), plan.streams["late"]
    assert isinstance(part, nodes.Step)
    assert late.schema == plan.streams["orders"].schema
    assert (str(late.kind), late.has_event_time) == ("append", True)
    assert part.side_outputs == {"late"}
    assert [stream.name for stream in part.main_outputs] == ["s"]


def test_late_rows_are_read_by_somebody_under_a_name_of_their_own(tmp_path: Path) -> None:
    steps = """steps:
  a: {from: orders, window: {tumble: 1s, late_to: lost}, aggregate: {n: count(*)}}
  b: {from: orders, window: {tumble: 1s, late_to: a}, aggregate: {n: count(*)}}
sinks:
  out: {from: a, console: {}}
  two: {from: b, console: {}}
"""
    lines = said(tmp_path, SOURCE.replace("path: in", "path: in.jsonl") + steps)
    assert [line.partition(": ")[2] for line in lines] == [
        'step "a": nothing reads "lost" [add a sink with from: lost]',
        'step "b": the name "a" is taken by a stream of "a" '
        "[every stream needs a name of its own; from: [a, b] unites two]",
    ]
