"""`over` in the plan: the columns that it adds, what is refused, and what is warned of."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.over_reach import measure_reach
from tests.support.plans import SOURCE, UNTIMED, over_orders, plan_of, said


def operation(folder: Path, step: str) -> nodes.Over:
    part = plan_of(folder, over_orders(step)).part("s")
    assert isinstance(part, nodes.Step)
    return next(each for each in part.operations if isinstance(each, nodes.Over))


def test_columns_are_added_to_those_of_the_rows(tmp_path: Path) -> None:
    text = "key: name, over: {before: lag(id), n: row_number(), part: price / sum(price)}, "
    plan = plan_of(tmp_path, over_orders(f"{text} select: [id, before, n, part]"))
    assert str(plan.streams["s"].schema) == (
        "id bigint not null, before bigint, n int not null, part decimal(33,23)"
    )
    over = operation(tmp_path, f"{text} select: [id, before]")
    assert [column.name for column in over.columns] == ["before"]
    assert over.stored_columns == frozenset({"id"})


@pytest.mark.parametrize(
    ("columns", "reach"),
    [
        ("n: row_number(), t: sum(id)", (0, 0, 0, 0)),
        ("a: 'lag(id, 3)', b: lead(id), c: 'lag(id, -2)'", (3, 0, 2, 0)),
        ("a: sum(id) over (rows between 5 preceding and 1 preceding)", (5, 0, 0, 0)),
        ("a: sum(id) over (rows between unbounded preceding and 4 preceding)", (4, 0, 0, 0)),
        (
            "a: sum(id) over (range between interval 2 seconds preceding and interval 1 second "
            "following)",
            (0, 2_000_000, 0, 1_000_000),
        ),
    ],
)
def test_how_far_columns_reach(
    tmp_path: Path, columns: str, reach: tuple[int, int, int, int]
) -> None:
    found = measure_reach(operation(tmp_path, f"over: {{{columns}}}"))
    assert (found.rows_before, found.us_before, found.rows_after, found.us_after) == reach


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("over: {n: id + 1}", "no function over the rows of a key is called here"),
        ("over: {id: lag(id)}", 'there is a column "id" already'),
        ("over: {n: lagg(id)}", 'unknown function "lagg" [did you mean "lag"?]'),
        ("over: {n: lag(idd)}", 'unknown column "idd" [did you mean "id"?]'),
        ("over: {n: lag(sum(id))}", "sum is inside another function over rows"),
        ("over: {n: sum(lag(id))}", "lag"),
        ("over: {n: 'lag(id, name)'}", "wanted a number of rows, got name"),
        ("over: {n: 'lag(id, 1, tags)'}", "the default of lag is array<string>, the value bigint"),
        ("over: {n: lag(id) ignore nulls}", "lag does not ignore nulls [last(value, true) over"),
        ("over: {n: lag(id) over (rows 2 preceding)}", "lag takes no frame"),
        ("over: {n: rank() over (rows 2 preceding)}", "rank takes no frame"),
        ("over: {n: rank(id)}", "rank takes no arguments, got 1"),
        ("over: {n: upper(name) over (rows 2 preceding)}", "upper is not a function over rows"),
        ("over: {n: 'nth_value(id, 0)'}", "wanted a number from 1"),
        ("over: {n: ntile(4)}", "they need all rows of a key, and a stream has no last one"),
        ("over: {n: lag(now())}", "the processing time cannot be used in over"),
        ("over: {n: sum(id) over (partition by name)}", "over (...) has only a frame here"),
        ("with: {n: lag(id)}", "belong into over: of a step [over: {previous: lag(price)}"),
        ("with: {n: sum(id) over ()}", "belong into over: of a step [key: card, over: {total"),
        ("window: {tumble: 1s}, over: {n: lag(id)}", '"window" does not go with "over"'),
        ("over: {n: lag(id)}, ttl: {after: 1h, time: processing}", "and so does its ttl"),
        ("aggregate: {n: count(*)}, late_to: late", '"late_to" needs "over" [other clauses'),
        ("with: {n: id}, over: {m: lag(id)}, late_to: late", 'but "with" has changed them'),
        ("aggregate: {n: count(*)}, over: {m: lag(id)}", '"over" does not go with "aggregate"'),
    ],
)
def test_mistakes_are_named(tmp_path: Path, step: str, message: str) -> None:
    assert any(message in line for line in said(tmp_path, over_orders(step)))


def test_rows_need_an_event_time(tmp_path: Path) -> None:
    steps = "steps:\n  s: {from: plain, over: {n: lag(id)}}\nsinks: {out: {from: s, console: {}}}\n"
    text = f"name: t\nsources:\n{UNTIMED}{steps}"
    message = "over goes by event time, but its input has none [set event_time in the source]"
    assert any(message in line for line in said(tmp_path, text))


@pytest.mark.parametrize(
    "changes",
    [
        "key: id, aggregate: {total: sum(price)}",
        "dedup: {key: id, keep: last}, select: {id: id, total: price}",
    ],
)
def test_rows_that_change_are_refused(tmp_path: Path, changes: str) -> None:
    text = f"""{SOURCE}steps:
  made: {{from: orders, {changes}}}
  s: {{from: made, key: id, over: {{n: lag(total)}}}}
sinks:
  out: {{from: s, console: {{}}}}
"""
    (line,) = (line for line in said(tmp_path, text) if 'step "s"' in line)
    assert "over does not take a stream of changes" in line
    assert "[put it before the changes begin" in line


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("key: id, over: {n: lag(id)}", 'every "id" is stored forever [ttl: 1h drops'),
        ("key: id, over: {n: lead(id)}", "a row waits for the next rows of its key, which may"),
        ("key: id, over: {n: lead(id)}, ttl: 1h", None),
        ("over: {n: lag(id)}", None),
    ],
)
def test_state_that_grows_is_warned_of(tmp_path: Path, step: str, message: str | None) -> None:
    text = f"""name: t
sources:
  a:
    generate: {{columns: {{id: id, at: "timestamp_seconds(id)"}}, rate: 1/s}}
    event_time: at
steps:
  s: {{from: a, {step}}}
sinks:
  out: {{from: s, console: {{}}}}
"""
    lines = said(tmp_path, text)
    assert len(lines) == (message is not None), lines
    assert all(message in line for line in lines if message)
