"""Errors of keyed steps: each is reported with its part, and all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from tests.support.plans import SOURCE, UNTIMED, over_orders, plan_of, said

FILES = 'source "orders": the windows of "s" wait until its last file is being read'


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("key: nam, aggregate: {n: count(*)}", 'unknown column "nam" [did you mean "name"?]'),
        ("key: upper(name), aggregate: {n: count(*)}", "an expression needs a name"),
        ("key: tags, aggregate: {n: count(*)}", "wanted a key of a single value, got array"),
        (
            "with: {m: 'map(name, id)'}, key: m, aggregate: {n: count(*)}",
            "wanted a key of a single value, got map<string,bigint> [use one of its values, as",
        ),
        (
            "with: {m: 'map(name, id)'}, top: {n: 1, by: m}",
            "wanted a value that has an order, got map<string,bigint> [use one of its values, as",
        ),
        ("aggregate: {n: 'max(map(name, id))'}", "max wants a type with an order, got map<"),
        (
            "aggregate: {n: 'count(distinct map(name, id))'}",
            "count(distinct ...) cannot compare maps, got map<string,bigint> [compare one of its",
        ),
        (
            "with: {m: 'map(struct(id), id)'}",
            "a column cannot be a map with keys of struct<id:bigint> [map_entries(...) gives",
        ),
        (
            "key: {t: now()}, aggregate: {n: count(*)}",
            "processing time cannot be used in a key",
        ),
        ("with: {t: now()}, key: t, aggregate: {n: count(*)}", "cannot be used in a key"),
        (
            "with: {t: now()}, key: {u: year(t)}, aggregate: {n: count(*)}",
            "cannot be used in a key",
        ),
        ("key: {t: 'null'}, aggregate: {n: count(*)}", "a column needs a type"),
        ("key: id, aggregate: {id: count(*)}", '"id" is a column of the key'),
        (
            "key: {window_end: id}, window: {tumble: 1s}, aggregate: {n: count(*)}",
            '"window_end" is a column of the window',
        ),
        (
            "key: id, window: {tumble: 1s}, aggregate: {window_start: count(*)}",
            '"window_start" is a column of the window',
        ),
        ("aggregate: {n: id}", 'column "id" is neither a key nor inside an aggregate'),
        ("aggregate: {n: sum(ids)}", 'unknown column "ids" [did you mean "id"?]'),
        ("aggregate: {n: sum(tags)}", "sum"),
        ("aggregate: {n: now()}", "the processing time cannot be used in an aggregate"),
        ("aggregate: {n: max(now())}", "the processing time cannot be used in an aggregate"),
        ("aggregate: {n: count(*)}, having: n", "wanted a condition (boolean), got bigint"),
        ("aggregate: {n: count(*)}, having: id > 1", 'unknown column "id"'),
        ("aggregate: {n: count(*)}, having: now() is null", "cannot be used in having"),
        ("where: count(*) > 1", "count is an aggregate [write it under aggregate: of a step]"),
        ("top: {n: 1, by: tags}", "wanted a value that has an order, got array<string>"),
        ("top: {n: 1, by: 'id desc, name'}", "several are a list: [price desc, id]"),
        ("top: {n: 1, by: id desc nulls}", 'wanted "nulls first", "nulls last" or nothing'),
        ("top: {n: 1, by: now()}", "the processing time cannot be used in top"),
        ("with: {rank: id}, top: {n: 1, by: id}", 'there is a column "rank" already'),
        ("top: {n: 1, by: id, ties: densly}", "wanted row_number, rank or dense_rank"),
        (
            "key: id, ttl: {after: 1h, time: processing}, top: {n: 1, by: id, ties: rank}",
            "ttl by the wall clock does not go with ties [leave out time: processing]",
        ),
        (
            "window: {tumble: 1s}, top: {n: 1, by: id, ties: rank}",
            "rank the rows of windows in a step after this one",
        ),
        ("key: {k: id + 1}, top: {n: 1, by: id}", "add it: with: {k: id + 1}, and key: k"),
        ("key: {k: 'least(id, 1)'}, top: {n: 1, by: id}", 'add it: with: {k: "least(id, 1)"}, and'),
        ("dedup: {key: {k: id + 1}, keep: last}", 'by key, but "k" is not a column of its rows'),
        (
            "dedup: {key: id, late_to: late}",
            'dedup: "late_to" needs "order: event_time" [rows are never late with order: arrival]',
        ),
        (
            "dedup: {key: id, order: event_time, ttl: 1s, time: processing}",
            'dedup: "time: processing" does not go with "order: event_time" '
            "[with it, ttl goes by event time]",
        ),
        (
            "with: {w: id}, dedup: {key: w, order: event_time, late_to: late}",
            'late_to emits rows as they arrived, but "with" has changed them',
        ),
        (
            "dedup: {key: id, keep: last, ttl: 1s}",
            'dedup: "ttl" has no effect with "keep: last" [keep: last stores no keys]',
        ),
        ("dedup: {key: id, order: time}", 'wanted arrival or event_time, got "time"'),
        ("key: id, aggregate: {n: count(*)}, select: [n]", "must keep the key of the changes: id"),
        (
            "key: id, window: {tumble: 1s, lateness: 1s}, aggregate: {n: count(*)}, select: [id]",
            "must keep the key of the changes: window_start, window_end",
        ),
        ("key: id, aggregate: {n: count(*)}, drop: [id]", "drop must keep the key"),
        ("key: id, aggregate: {n: count(*)}, route: {a: n > 1}", "route does not take a stream of"),
    ],
)
def test_an_error_in_a_keyed_step_is_reported(tmp_path: Path, step: str, message: str) -> None:
    lines = said(tmp_path, over_orders(step))
    assert any(message in line and 'step "s"' in line for line in lines), lines


def test_all_errors_of_a_keyed_step_are_reported_at_once(tmp_path: Path) -> None:
    step = "where: i > 1, key: [nam, id], window: {tumble: 1s, every: 2s}, aggregate: "
    lines = said(
        tmp_path, over_orders(step + "{a: sum(prise), b: sum(x)}, having: a > b and id > 1")
    )
    assert [line.partition(": ")[2].partition(" [")[0] for line in lines] == [
        FILES,
        'step "s": unknown column "i"',
        'step "s": unknown column "nam"',
        'step "s": window: "every" does not go with "tumble"',
        'step "s": unknown column "prise"',
        'step "s": unknown column "x"',
    ]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("window: {tumble: 1s}, aggregate: {n: count(*)}", "window: tumble needs an event time"),
        ("window: {session: 1s}, top: {n: 1, by: id}", "window: session needs an event time"),
        (
            "window: {count: 9, evict: {within: 1s}}, aggregate: {n: count(*)}",
            "window: evict: within needs an event time",
        ),
        (
            "window: {global: true, trigger: {every: 1s}}, aggregate: {n: count(*)}",
            "window: trigger: every needs an event time",
        ),
        (
            "aggregate: {n: count(*)}, ttl: 1s",
            "its input has none [set event_time in the source, or ttl: {after: ..., time: proc",
        ),
        (
            "dedup: {key: id, ttl: 1s}",
            "ttl goes by event time, but its input has none "
            "[set event_time in the source, or time: processing]",
        ),
        (
            "dedup: {key: id, order: event_time, ttl: 1s}",
            "dedup: order: event_time needs an event time, but its input has none "
            "[set event_time in the source, or leave out order]",
        ),
    ],
)
def test_what_goes_by_event_time_needs_one(tmp_path: Path, step: str, message: str) -> None:
    steps = f"steps:\n  s: {{from: plain, {step}}}\n  t: {{from: orders, where: id = 1}}\n"
    sinks = "sinks:\n  a: {from: s, console: {}}\n  b: {from: t, console: {}}\n"
    lines = said(tmp_path, SOURCE + UNTIMED + steps + sinks)
    assert any(message in line for line in lines), lines


COUNTS = "key: [id, name], aggregate: {n: count(*)}"


def over_changes(step: str, first: str = COUNTS) -> str:
    steps = f"steps:\n  s: {{from: orders, {first}}}\n  t: {{from: s, {step}}}\n"
    return f"{SOURCE}{steps}sinks:\n  out: {{from: t, console: {{}}}}\n"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            "key: id, window: {count: 2}, aggregate: {m: max(n)}",
            "a count window does not take a stream of changes",
        ),
        (
            "key: id, top: {n: 1, by: n}, ttl: {after: 1h, time: processing}",
            "ttl by the wall clock does not go with a stream of changes: a row and its removal "
            "arrive at different times [leave out time: processing]",
        ),
        (
            "key: id, aggregate: {m: min(n)}, ttl: {after: 1h, time: processing}",
            "ttl by the wall clock does not go with a stream of changes",
        ),
        ("dedup: {key: id}", "dedup by arrival does not take a stream of changes"),
        ("with: {t: now()}, key: n, aggregate: {m: max(t)}", "does not take the processing time"),
        (
            "key: n, aggregate: {m: 'max(if(n > 1, raise_error(name), n))'}, on_error: skip",
            "on_error does not go with rows that are added and removed",
        ),
    ],
)
def test_what_would_lose_sight_of_a_row_takes_no_changes(
    tmp_path: Path, step: str, message: str
) -> None:
    lines = said(tmp_path, over_changes(step))
    assert any(message in line and 'step "t"' in line for line in lines), lines


def test_a_clock_in_an_aggregate_of_changes_is_reported_once(tmp_path: Path) -> None:
    lines = said(tmp_path, over_changes("key: n, aggregate: {m: 'max(if(now() is null, n, 1))'}"))
    clock = [line for line in lines if "processing time" in line]
    assert len(clock) == 1, lines
    assert "the processing time cannot be used in an aggregate" in clock[0]


def test_a_struct_that_a_maximum_goes_by_has_fields(tmp_path: Path) -> None:
    step = "key: n, aggregate: {m: 'max_by(id, struct(n, name))'}"
    lines = said(tmp_path, over_changes(step))
    assert any(
        "use one of its fields, or the arguments are in another order" in line for line in lines
    )


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("key: n, aggregate: {m: max(id)}", nodes.Upsert(("n",), True)),
        ("with: {m: n + id}, key: m, top: {n: 1, by: n}", nodes.Upsert(("m", "rank"), True)),
        ("with: {name: upper(name)}, key: id, top: {n: 1, by: n}", nodes.Upsert(("id", "rank"))),
        ("key: id, top: {n: 1, by: n, ties: rank}", nodes.Retract(("id", "name"))),
        ("key: n, top: {n: 1, by: id, ties: dense_rank}", nodes.Retract(("id", "name"))),
        ("select: [id, n]", nodes.Retract()),
        ("where: n > 1, select: {a: name, b: id, c: n}", nodes.Upsert(("b", "a"), True)),
        ("explode: {x: 'array(n, 1)'}", nodes.Retract()),
    ],
)
def test_what_moves_rows_between_groups_gets_the_rows_that_are_removed(
    tmp_path: Path, step: str, kind: nodes.StreamKind
) -> None:
    part = plan_of(tmp_path, over_changes(step)).part("t")
    assert isinstance(part, nodes.Step)
    found = part.outputs[0].kind
    assert (type(found), found.key) == (type(kind), kind.key)  # type: ignore[union-attr]
    converted = not (isinstance(kind, nodes.Upsert) and kind.key == ("b", "a"))
    assert part.inputs == (("s@retract",) if converted else ("s",))


@pytest.mark.parametrize(
    "step",
    [
        "top: {n: 1, by: n}",
        "key: [id, name], top: {n: 1, by: n}",
        "where: n > 1, with: {half: id / 2}, key: half, top: {n: 1, by: n}",
        "with: {who: name}, key: {big: upper(who)}, aggregate: {m: max(n)}",
        "with: {one: 1}, key: one, aggregate: {m: max(n)}",
    ],
)
def test_rows_that_stay_in_their_group_may_change(tmp_path: Path, step: str) -> None:
    plan = plan_of(tmp_path, over_changes(step))
    assert str(plan.streams["t"].kind).endswith("with deletes")


def test_consequences_of_an_error_are_not_reported(tmp_path: Path) -> None:
    steps = """steps:
  a: {from: orders, select: {x: nam, y: id}}
  b: {from: a, key: x, aggregate: {n: sum(x), m: count(y), o: sum(n)}, having: n > 1 and m > 1}
  c: {from: b, where: m > 1 and n > 1, select: [x, n, m]}
  d: {from: a, key: y, top: {n: 1, by: x desc}}
  e: {from: d, select: [x, y, rank]}
  f: {from: nowhere, key: x, window: {tumble: 1s}, aggregate: {n: sum(x)}}
  g: {from: f, select: [x, n, window_start, window_end, anything]}
  h: {from: nowhere, dedup: {key: x, keep: last}}
"""
    sinks = "".join(f"  to_{name}: {{from: {name}, console: {{}}}}\n" for name in "cegh")
    assert [
        line.partition(" [")[0] for line in said(tmp_path, f"{SOURCE}{steps}sinks:\n{sinks}")
    ] == [
        '9: step "a": unknown column "nam"',
        '10: step "b": unknown column "n"',
        '14: step "f": unknown source or step "nowhere"',
        '16: step "h": unknown source or step "nowhere"',
    ]
