"""Kafka in the plan: columns next to the value, keys of changes, requirements of exactly once."""

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from tests.support.plans import built, plan_of

HEAD = "name: t\nsettings: {{checkpoint: {{{checkpoint}}}}}\n"
SOURCE = """sources:
  s:
    kafka: {{brokers: b:9092, topic: t, metadata: {{{metadata}}}}}
    schema: {{id: bigint not null, name: string, at: timestamp, price: double, tags: array<int>}}
    {more}
"""
STDIN = "  line: {stdin: {}, schema: {name: string}}\n"


def document(
    sink: str = "console: {}",
    metadata: str = "",
    more: str = "",
    steps: str = "",
    checkpoint: str = "",
    read: str = "s",
) -> str:
    head = HEAD.format(checkpoint=checkpoint) if checkpoint else "name: t\n"
    source = SOURCE.format(metadata=metadata, more=more)
    return f"{head}{source}{steps}sinks:\n  o: {{from: {read}, {sink}}}\n"


def said(folder: Path, text: str) -> list[str]:
    """Return the errors of a text."""
    problems = built(folder, text)[1]
    return [f"{p.subject}: {p.message}" for p in problems if p.severity == "error"]


def kafka(options: str, more: str = "") -> str:
    return f"kafka: {{brokers: 'b:9092', {options}}}{more}"


def test_metadata_columns_follow_the_declared_columns(
    tmp_path: Path,
) -> None:
    asked = "headers: h, key: k, topic: tp, partition: p, offset: o, timestamp: ts"
    schema = plan_of(tmp_path, document(metadata=asked)).streams["s"].schema
    assert str(Schema(schema.fields[5:])) == (
        "tp string not null, p int not null, o bigint not null, ts timestamp not null, k string, "
        "h array<struct<key:string not null,value:string>> not null"
    )


def test_only_what_is_needed_of_it_is_read(tmp_path: Path) -> None:
    steps = "steps:\n  a: {from: s, select: {x: name, o: o}}\n"
    plan = plan_of(tmp_path, document(metadata="offset: o, key: k", steps=steps, read="a"))
    source = plan.part("s")
    assert isinstance(source, nodes.Source)
    assert source.decoded_columns == ("id", "name", "o")


def test_the_record_s_timestamp_may_be_the_event_time(tmp_path: Path) -> None:
    text = document(metadata="timestamp: ts", more="event_time: ts")
    assert plan_of(tmp_path, text).streams["s"].has_event_time


def test_raw_records_have_it_as_well(tmp_path: Path) -> None:
    text = (
        "name: t\nsources:\n  s: {kafka: {brokers: 'b:1', topic: t, metadata: {key: k}}, "
        "format: raw}\nsinks:\n  o: {from: s, console: {}}\n"
    )
    assert str(plan_of(tmp_path, text).streams["s"].schema) == "value string not null, k string"
    wrong = said(tmp_path, text.replace("key: k", "key: value"))
    assert wrong == ['source "s": metadata: there is a column "value" already']


def test_a_repeated_name_is_reported_at_its_location(tmp_path: Path) -> None:
    assert said(tmp_path, document(metadata="offset: id")) == [
        'source "s": metadata: there is a column "id" already'
    ]


def test_a_mistake_in_it_makes_no_other_mistakes(tmp_path: Path) -> None:
    steps = "steps:\n  a: {from: s, select: {x: o}}\n"
    lines = said(tmp_path, document(metadata="ofset: o", steps=steps, read="a"))
    assert lines == ['source "s": kafka.metadata: unknown key "ofset"']


def test_it_needs_a_schema(tmp_path: Path) -> None:
    text = document().replace("    schema:", "    # schema:")
    assert said(tmp_path, text) == ['source "s": missing key "schema"']


@pytest.mark.parametrize(
    "options",
    [
        "topic: out",
        "topic: out, key: id",
        "topic: out, key: [id, name], partition_by: name, timestamp: at",
        "topic: {expr: \"concat('t-', name)\"}, headers: {who: name, kind: \"'x'\"}",
        "topic: out, delivery: exactly_once, transaction_timeout: 5m",
    ],
)
def test_a_sink_that_fits(options: str, tmp_path: Path) -> None:
    assert said(tmp_path, document(kafka(options))) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("key: idd", 'key: unknown column "idd"'),
        ("key: tags", 'key: "tags" of type array<int> is not a single value'),
        ("key: price", 'key: "price" of type double identifies nothing'),
        ("partition_by: x", 'partition_by: unknown column "x"'),
        ("timestamp: name", 'timestamp: "name" of type string is not a timestamp'),
        ("timestamp: event_time", "timestamp: the rows have no event time"),
        ("headers: {a: nam}", 'unknown column "nam"'),
        ("headers: {a: id}", "wanted an expression of type string or binary, got bigint"),
    ],
)
def test_a_sink_s_columns_are_checked(options: str, message: str, tmp_path: Path) -> None:
    lines = said(tmp_path, document(kafka(f"topic: out, {options}")))
    assert len(lines) == 1 and lines[0].startswith(f'sink "o": {message}'), lines


@pytest.mark.parametrize(
    ("expression", "message"),
    [("nam", 'unknown column "nam"'), ("id", "wanted an expression of type string, got bigint")],
)
def test_a_topic_of_each_row_is_a_string(expression: str, message: str, tmp_path: Path) -> None:
    lines = said(tmp_path, document(kafka(f"topic: {{expr: {expression}}}")))
    assert lines == [f'sink "o": {message}']


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        (
            kafka("topic: out", ", format: parquet"),
            "format: wanted json, csv, raw or debezium_json with",
        ),
        (kafka("topic: out", ", format: csv"), 'csv cannot hold "tags"'),
        (kafka("topic: out", ", format: raw"), "raw writes one column of text or bytes, got id"),
    ],
)
def test_a_format_that_cannot_carry_the_rows(sink: str, message: str, tmp_path: Path) -> None:
    lines = said(tmp_path, document(sink))
    assert len(lines) == 1 and message in lines[0], lines


def test_of_raw_records_the_value_is_what_says_nothing_else(tmp_path: Path) -> None:
    steps = "steps:\n  a: {from: s, select: {id: id, kind: name, at: at, text: name}}\n"
    options = "topic: {expr: kind}, key: id, timestamp: at"
    assert said(tmp_path, document(kafka(options, ", format: raw"), steps=steps, read="a")) == []
    without = document(kafka("topic: x, key: id", ", format: raw"), steps=steps, read="a")
    assert "raw writes one column of text or bytes, got kind" in said(tmp_path, without)[0]


CHANGES = "steps:\n  n: {from: s, key: [id, name], aggregate: {n: count(*)}}\n"


def changes(options: str) -> str:
    return document(kafka(f"topic: {options}"), steps=CHANGES, read="n")


def test_the_key_of_changes_is_that_of_their_stream(tmp_path: Path) -> None:
    sink = plan_of(tmp_path, changes("out")).part("o")
    assert isinstance(sink, nodes.Sink)
    assert sink.key == ("id", "name")
    assert said(tmp_path, changes("out, key: [name, id], partition_by: id")) == []
    assert said(tmp_path, changes("{expr: name}")) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("out, key: [id, name, n]", 'key: the rows are changes of (id, name), and "n" is not in'),
        ("out, key: id", "key: the rows are changes of (id, name), and name is left out"),
        ("out, partition_by: n", "partition_by: the rows are changes of (id, name), which alone"),
        ("{expr: cast(n as string)}", "topic: the rows are changes of (id, name), which alone"),
    ],
)
def test_what_would_take_changes_apart_is_refused(
    options: str, message: str, tmp_path: Path
) -> None:
    lines = said(tmp_path, changes(options))
    assert len(lines) == 1 and lines[0].startswith(f'sink "o": {message}'), lines


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("every: never", "delivery: exactly_once needs checkpoints, which commit"),
        ("mode: at_least_once", "delivery: exactly_once needs exact checkpoints"),
        ("every: 15m", "transaction_timeout must exceed the time from one checkpoint"),
    ],
)
def test_exactly_once_takes_exact_checkpoints(
    checkpoint: str, message: str, tmp_path: Path
) -> None:
    text = document(kafka("topic: x, delivery: exactly_once"), checkpoint=checkpoint)
    lines = said(tmp_path, text)
    assert len(lines) == 1 and lines[0].startswith(f'sink "o": {message}'), lines
    assert said(tmp_path, document(kafka("topic: x"), checkpoint=checkpoint)) == []


def test_exactly_once_takes_sources_that_can_be_read_again(tmp_path: Path) -> None:
    text = document(kafka("topic: x, delivery: exactly_once")).replace(
        "sinks:\n", f"{STDIN}sinks:\n  other: {{from: line, console: {{}}}}\n"
    )
    assert said(tmp_path, text) == [
        'sink "o": delivery: exactly_once needs checkpoints, and line cannot be read again from one'
    ]


TOPICS = """name: t
sources:
  a: {{kafka: {{brokers: "h:1,g:1", {read}}}, schema: {{id: bigint}}}}
  b: {{kafka: {{brokers: "h:1", topic: two}}, schema: {{id: bigint}}}}
steps:
  s: {{from: a, where: id > 1}}
  t: {{from: b, where: id > 1}}
sinks:
  o: {{from: s, kafka: {{brokers: "{brokers}", topic: {first}}}}}
  p: {{from: t, kafka: {{brokers: "h:1", topic: {second}}}}}
"""


def test_a_loop_through_a_topic_and_the_head_of_another_is_warned_of(tmp_path: Path) -> None:
    text = """name: t
sources:
  starts: {generate: {rows: 1, columns: {id: id}}}
  edges: {kafka: {brokers: "h:1", topic: edges}, schema: {tail: bigint, id: bigint}}
steps:
  found: {iterate: {from: starts, until: id > 9, feedback: next}}
  next:
    join: {left: {from: found.loop, as: one}, right: edges, on: one.id = edges.tail}
    select: {id: edges.id}
sinks:
  o: {from: found, kafka: {brokers: "h:1", topic: edges}}
"""
    _, problems = built(tmp_path, text)
    assert [p.subject for p in problems if "go round" in p.message] == ['sink "o"']


@pytest.mark.parametrize(
    ("read", "brokers", "first", "second", "loops"),
    [
        ("topic: one", "h:1", "one", "three", {"o": "a"}),
        ("topics: [zero, one]", "g:1", "one", "three", {"o": "a"}),
        ("pattern: 'on.'", "h:1", "one", "three", {"o": "a"}),
        ("topic: one", "h:1", "two", "one", {"o": "b", "p": "a"}),
        ("topic: one", "h:1", "two", "three", {}),
        ("topic: one", "other:1", "one", "three", {}),
        ("pattern: 'n.'", "h:1", "one", "three", {}),
        ("topic: one", "h:1", "{expr: \"'one'\"}", "three", {}),
    ],
)
def test_a_loop_through_topics_is_warned_of(
    tmp_path: Path, read: str, brokers: str, first: str, second: str, loops: dict[str, str]
) -> None:
    text = TOPICS.format(read=read, brokers=brokers, first=first, second=second)
    plan, problems = built(tmp_path, text)
    assert plan is not None
    found = {p.subject[6:-1]: p.message for p in problems if "go round" in p.message}
    assert found.keys() == loops.keys()
    assert all(f'source "{loops[sink]}" reads' in message for sink, message in found.items())
