"""A document becomes a plan with known schemas, or a list of all errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plans import SOURCE, over_orders, plan_of, said


def columns(folder: Path, step: str) -> str:
    """Return the output columns of a step over `orders`."""
    return str(plan_of(folder, over_orders(step)).streams["s"].schema)


@pytest.mark.parametrize(
    ("step", "schema"),
    [
        ("select: [name, id]", "name string, id bigint not null"),
        ("select: {n: name, i: id}", "n string, i bigint not null"),
        ("drop: [tags, at, extra]", "id bigint not null, name string, price decimal(10,2)"),
        (
            "with: {name: id, id: name}, select: [id, name]",
            "id string, name bigint not null",
        ),
        ("with: {y: name}, select: [y]", "y string"),
        ("explode: {tag: tags}, select: [tag]", "tag string"),
        ("explode: {tags: tags}, select: [tags]", "tags string"),
        ("where: tags is null, select: [id]", "id bigint not null"),
    ],
)
def test_a_step_leaves_these_columns(tmp_path: Path, step: str, schema: str) -> None:
    assert columns(tmp_path, step) == schema


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("select: [nam]", 'unknown column "nam" [did you mean "name"?]'),
        ("select: [zzz]", 'unknown column "zzz" [the columns are id, name,'),
        ("select: [upper(name)]", "a list has columns; an expression needs a name"),
        ("where: nam is null", 'unknown column "nam" [did you mean "name"?]'),
        ("where: id", "wanted a condition (boolean), got bigint"),
        ("where: 'null'", "the condition is always null"),
        ("select: {x: 'null'}", "a column needs a type, and null has none"),
        ("select: {x: array(null)}", "a column needs a type"),
        ("explode: {tag: name}", 'wanted an array to explode, got "name" of type string'),
        ("explode: {tag: tagz}", 'unknown column "tagz" [did you mean "tags"?]'),
        ("explode: {name: tags}", 'there is a column "name" already'),
        ("drop: [nope]", 'unknown column "nope"'),
        ("drop: [id, name, price, tags, at, extra]", "drop leaves no column"),
        ("where: id = 1, parallelism: 200", "parallelism 200 is more than the 128 key groups"),
        ("route: {a: id}", "wanted a condition (boolean), got bigint"),
    ],
)
def test_an_error_in_a_step_is_reported(tmp_path: Path, step: str, message: str) -> None:
    lines = said(tmp_path, over_orders(step))
    assert any(message in line and 'step "s"' in line for line in lines), lines


def test_all_errors_are_reported_at_once_and_each_once(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        SOURCE
        + """
steps:
  a: {from: orders, select: {x: nam, y: id}}
  b: {from: a, where: x = 1 and y is null, with: {z: y, w: x, v: yy}}
  c: {from: b, where: w is null, select: [z, v, nope]}
sinks:
  out: {from: c, console: {}}
""",
    ) == [
        '10: step "a": unknown column "nam" [did you mean "name"?]',
        '11: step "b": unknown column "yy" [did you mean "y"?]',
        '12: step "c": unknown column "nope" [the columns are y, z]',
    ]


def test_a_step_that_was_not_understood_silences_its_readers(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        SOURCE
        + """
steps:
  a: {from: orders, wher: id > 1}
  b: {from: a, select: [anything], where: what > 1 +}
sinks:
  out: {from: b, console: {}}
""",
    ) == [
        '10: step "a": unknown key "wher" [did you mean "where"?]',
        '11: step "b": wanted a value, got the end',
    ]


def test_unknown_inputs_are_reported(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        SOURCE
        + """
steps:
  a: {from: order, where: id > 1}
  r: {from: orders, route: {big: price > 1}}
  b: {from: r, where: id is null}
  c: {from: out, where: id is null}
sinks:
  out: {from: a, console: {}}
  two: {from: r.bug, console: {}}
  three: {from: b, console: {}}
  four: {from: c, console: {}}
  five: {from: r.big, console: {}}
""",
    ) == [
        '10: step "a": unknown source or step "order" [did you mean "orders"?]',
        '12: step "b": "r" is a route and has only named outputs [one of r.big, r.else]',
        '13: step "c": "out" is a sink: nothing comes out of it',
        '16: sink "two": unknown source or step "r.bug" [did you mean "r.big"?]',
    ]


def test_unused_streams_are_reported(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        SOURCE.replace("event_time: at", "on_error: {to: rejected}")
        + """
steps:
  a: {from: orders, select: [id]}
  lonely: {from: orders, select: [id]}
sinks:
  out: {from: a, console: {}}
""",
    ) == [
        '7: source "orders": nothing reads "rejected" [add a sink with from: rejected]',
        '11: step "lonely": nothing reads "lonely" [add a sink with from: lonely]',
    ]


def test_a_step_that_does_nothing_is_refused_for_that_alone(tmp_path: Path) -> None:
    (only,) = said(
        tmp_path,
        SOURCE
        + """
steps:
  idle: {from: orders}
sinks:
  out: {from: orders, console: {}}
""",
    )
    assert only.startswith('10: step "idle": wanted a clause in addition to "from", got none')


def test_a_cycle_is_reported_once(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        SOURCE
        + """
steps:
  a: {from: c, select: [id]}
  b: {from: a, select: [id]}
  c: {from: b, select: [id]}
sinks:
  out: {from: c, console: {}}
  all: {from: orders, console: {}}
""",
    ) == [
        '10: step "a": steps read each other in a cycle: a from c from b from a'
        " [start from a source; rows go round through a step with iterate, the head of a loop]",
    ]


def test_a_name_is_given_once(tmp_path: Path) -> None:
    lines = said(
        tmp_path,
        SOURCE.replace("event_time: at", "on_error: {to: a}")
        + """
steps:
  a: {from: orders, select: [id]}
sinks:
  out: {from: a, console: {}}
""",
    )
    assert any('the name "a" is taken' in line for line in lines), lines


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ("{id: bigint}", '"one" has a column "n", but "two" has none'),
        ("{id: bigint, n: string, x: int}", '"two" has a column "x", but "one" has none'),
        ("{id: int, n: string}", '"id" is bigint in "one" and int in "two"'),
        ("{n: string, id: bigint}", "their order differs: id, n and n, id"),
    ],
)
def test_a_union_needs_equal_columns(tmp_path: Path, other: str, difference: str) -> None:
    text = f"""name: test
sources:
  one: {{files: {{path: a}}, schema: {{id: bigint not null, n: string}}}}
  two: {{files: {{path: b}}, schema: {other}}}
steps:
  both: {{from: [one, two]}}
sinks:
  out: {{from: both, console: {{}}}}
"""
    assert any(difference in line for line in said(tmp_path, text)), said(tmp_path, text)


UNEQUAL = """name: test
sources:
  one: {{files: {{path: a}}, schema: {one}}}
  two: {{files: {{path: b}}, schema: {two}}}
steps:
{steps}
  both: {{from: {read}}}
sinks:
  out: {{from: both, console: {{}}}}
"""


@pytest.mark.parametrize(
    ("one", "two", "differences", "steps", "read"),
    [
        (
            "{id: bigint, n: string}",
            "{id: int, n: string}",
            '"id" is bigint in "one" and int in "two"',
            ["two_rows: {from: two, select: {id: cast(id as bigint), n: n}}"],
            "[one, two_rows]",
        ),
        (
            "{id: int, n: string}",
            "{n: string, id: int}",
            "their order differs: id, n and n, id",
            ["two_rows: {from: two, select: [id, n]}"],
            "[one, two_rows]",
        ),
        (
            '{id: int, "a b": float}',
            '{x: "decimal(5,2)", id: bigint, "a b": int}',
            '"two" has a column "x", but "one" has none; "id" is int in "one" and bigint in "two"; '
            '"a b" is float in "one" and int in "two"',
            [
                "one_rows: {from: one, select: {id: cast(id as bigint), "
                'a b: "`a b`", x: "cast(null as decimal(5,2))"}}',
                'two_rows: {from: two, select: {id: id, a b: "cast(`a b` as float)", x: x}}',
            ],
            "[one_rows, two_rows]",
        ),
    ],
)
def test_what_makes_a_union_of_unequal_columns_is_written_out(
    tmp_path: Path, one: str, two: str, differences: str, steps: list[str], read: str
) -> None:
    def text(steps: str, read: str) -> str:
        return UNEQUAL.format(one=one, two=two, steps=steps, read=read)

    shown = said(tmp_path, text("", "[one, two]"))
    hint = f"add {' and '.join(steps)} and read from: {read}"
    assert shown == [f'7: step "both": a union needs equal columns: {differences} [{hint}]']
    lines = "\n".join(f"  {step}" for step in steps)
    plan_of(tmp_path, text(lines, read))


def test_columns_that_no_type_takes_need_another_name(tmp_path: Path) -> None:
    text = UNEQUAL.format(one="{a: int}", two="{a: array<int>}", steps="", read="[one, two]")
    assert said(tmp_path, text)[0].endswith('[no type fits both: rename "a" in an earlier step]')


def test_a_union_may_be_null_where_one_input_may(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        """name: test
sources:
  one: {files: {path: a}, schema: {id: bigint not null}}
  two: {files: {path: b}, schema: {id: bigint}}
steps:
  both: {from: [one, two]}
sinks:
  out: {from: both, console: {}}
""",
    )
    assert str(plan.streams["both"].schema) == "id bigint"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("event_time: at", None),
        ("event_time: att", 'event_time: unknown column "att" [did you mean "at"?]'),
        (
            "event_time: name",
            'event_time: wanted a timestamp, got "name" of type string '
            "[declare it as timestamp in schema: ISO 8601 text is read as one]",
        ),
        ("event_time: id", "json: {epoch: ms}"),
        ("event_time: id\n    format: parquet", "[as in event_time: timestamp_millis(id)]"),
        ("event_time: meta.ts", None),
        ("event_time: meta.tz", 'unknown field "tz"'),
        ("watermark: {delay: 1s}", "a watermark needs an event time"),
        ("event_time: at\n    watermark: {from: name}", 'wanted a timestamp, got "name"'),
        ("format: raw", "raw records are one column of text or bytes, got 6"),
        ("format: csv", '5: source "orders": csv cannot hold "tags" of type array<string> [form'),
        (
            "event_time: meta.map",
            'the keys of JSON objects are text, and those of "name" int [declare it as '
            "map<string,date>]",
        ),
    ],
)
def test_a_source_is_checked(tmp_path: Path, change: str, message: str | None) -> None:
    text = SOURCE.replace("event_time: at", change) + "\nsinks:\n  o: {from: orders, console: {}}\n"
    if "meta" in change:
        text = text.replace("name: string", "meta: 'struct<ts: timestamp>'")
    if "meta.map" in change:
        text = text.replace("meta: 'struct<ts: timestamp>'", "name: 'array<map<int, date>>'")
    lines = said(tmp_path, text)
    assert any(message in line for line in lines) if message else not lines, lines


def test_raw_records_are_one_column_by_default(tmp_path: Path) -> None:
    text = (
        "name: test\nsources:\n  s: {stdin: {}, format: raw}\n"
        "sinks:\n  o: {from: s, stdout: {}, format: raw}\n"
    )
    assert str(plan_of(tmp_path, text).streams["s"].schema) == "value string not null"


def test_a_source_that_brings_its_columns_takes_no_schema(tmp_path: Path) -> None:
    text = """name: test
sources:
  s: {nexmark: {events: 10}, schema: {a: int}}
sinks:
  o: {from: s, console: {}}
"""
    assert any("nexmark defines its own columns" in line for line in said(tmp_path, text))


def test_generated_columns_are_expressions_over_the_row_number(tmp_path: Path) -> None:
    text = """name: test
sources:
  s: {generate: {rows: 5, columns: {a: id is null, b: i}}}
sinks:
  o: {from: s, console: {}}
"""
    assert any('unknown column "i"' in line for line in said(tmp_path, text))
    (line,) = said(tmp_path, text.replace(", b: i", ", b: now()"))
    assert "other values after a restart [compute it in a step" in line
    plan = plan_of(tmp_path, text.replace(", b: i", ", b: id"))
    timed = text.replace(", b: i}}}", ", b: id}}, event_time: b}")
    (line,) = said(tmp_path, timed)
    assert line.endswith("[a timestamp is computed, as in columns: {b: timestamp_millis(id)}]")
    plan_of(tmp_path, timed.replace("b: id", "b: timestamp_millis(id)"))
    assert str(plan.streams["s"].schema) == "a boolean not null, b bigint not null"


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("files: {path: o}, format: csv", 'csv cannot hold "tags" of type array<string>'),
        ("files: {path: o}, format: raw", "raw writes one column of text or bytes"),
        ("files: {path: o, compression: zstd}, format: parquet", "parquet has its own compression"),
        ("files: {path: o, partition_by: [nam]}", 'unknown column "nam"'),
        ("files: {path: o, partition_by: [tags]}", "is not a single value"),
    ],
)
def test_a_sink_is_checked(tmp_path: Path, sink: str, message: str) -> None:
    lines = said(tmp_path, f"{SOURCE}\nsinks:\n  o: {{from: orders, {sink}}}\n")
    assert any(message in line for line in lines), lines


def test_rows_that_fail_are_a_stream_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(row): return row\n")
    plan = plan_of(
        tmp_path,
        SOURCE
        + """
    on_error: {to: rejected}
steps:
  m:
    from: orders
    map: {python: f.py:f, returns: {id: bigint}, mode: row}
    on_error: {to: failed}
  all: {from: [rejected, failed]}
sinks:
  bad: {from: all, files: {path: bad}}
  good: {from: m, files: {path: good}}
""",
    )
    assert plan.streams["all"].schema.names == (
        *("error", "step", "source", "split", "position", "raw", "at"),
    )
    assert not plan.streams["all"].has_event_time
