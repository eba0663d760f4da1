"""The options of `kafka:`: valid ones, incompatible ones, and masking of passwords."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from headrace.connectors.kafka.offset_bounds import OffsetBounds, TimeBound
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.connectors.registry import REGISTRY
from headrace.core.errors.rendering import render_problem
from headrace.core.pipeline.loader import LoadedPipeline, load_pipeline
from headrace.core.plan.canonical import location_text
from headrace.core.plan.formatting import format_options
from headrace.core.plan.plan_assembly import build_plan

PASSWORD = "SECRET-OF-THE-TEST"
ENV = {"HEADRACE_SECRET_PW": PASSWORD, "PW": PASSWORD, "HOST": "b:1"}


def loaded(folder: Path, source: str, sink: str = "console: {}") -> LoadedPipeline:
    path = folder / "p.yaml"
    path.write_text(
        f"name: t\nsources:\n  s: {{kafka: {{{source}}}, format: raw}}\n"
        f"sinks:\n  o: {{from: s, {sink}}}\n"
    )
    return load_pipeline(path, REGISTRY, env=ENV)


def source_of(folder: Path, source: str) -> KafkaSource:
    found = loaded(folder, source)
    assert not found.problems, [problem.message for problem in found.problems]
    options = found.pipeline.sources["s"].options
    assert isinstance(options, KafkaSource)
    return options


def sink_of(folder: Path, sink: str) -> KafkaSink:
    found = loaded(folder, "brokers: 'b:1', topic: t", f"kafka: {{brokers: 'b:1', {sink}}}")
    assert not found.problems, [problem.message for problem in found.problems]
    options = found.pipeline.sinks["o"].options
    assert isinstance(options, KafkaSink)
    return options


def messages(folder: Path, source: str, sink: str = "console: {}") -> list[str]:
    return [problem.message for problem in loaded(folder, source, sink).problems]


@pytest.mark.parametrize(
    ("written", "brokers"),
    [
        ("'b:1'", ("b:1",)),
        ("'b:1, c.d-e:2'", ("b:1", "c.d-e:2")),
        ("['b:1', '[::1]:9092']", ("b:1", "[::1]:9092")),
        ("'${env:HOST}'", ("b:1",)),
    ],
)
def test_brokers_are_a_list_or_a_text(written: str, brokers: tuple[str], tmp_path: Path) -> None:
    assert source_of(tmp_path, f"brokers: {written}, topic: t").brokers == brokers


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("b", 'kafka.brokers: wanted host:port, got "b"'),
        ("'b:1,'", 'kafka.brokers: wanted host:port, got ""'),
        ("'kafka://b:1'", 'kafka.brokers: wanted host:port, got "kafka://b:1"'),
        ("['b:1', 'c:70000']", 'kafka.brokers[1]: wanted host:port, got "c:70000"'),
        ("'${secret:PW}'", "kafka.brokers: a secret is not allowed here"),
    ],
)
def test_invalid_brokers_are_reported(written: str, message: str, tmp_path: Path) -> None:
    said = messages(tmp_path, f"brokers: {written}, topic: t")
    assert len(said) == 1 and said[0].startswith(message), said


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("", "kafka: wanted one of topic, topics, pattern, got none"),
        (", topic: a, pattern: b", 'kafka.pattern: "pattern" does not go with "topic"'),
        (", topic: 'a b'", 'kafka.topic: wanted the name of a topic, got "a b"'),
        (", topics: [a, a]", 'kafka.topics[1]: "a" is listed twice'),
        (", pattern: 'a('", "kafka.pattern: not a regular expression: missing ), unterminated"),
    ],
)
def test_wrong_topics_and_patterns_are_reported_once(
    which: str, message: str, tmp_path: Path
) -> None:
    said = messages(tmp_path, f"brokers: 'b:1'{which}")
    assert len(said) == 1 and said[0].startswith(message), said


def test_where_reading_begins_and_ends(tmp_path: Path) -> None:
    read = source_of(
        tmp_path,
        "brokers: 'b:1', topic: t, start: {timestamp: '2026-01-31T09:00+01:00'}, "
        "stop: {offsets: {0: 17, 3: 4}}, discover: never",
    )
    assert isinstance(read.start, TimeBound) and isinstance(read.stop, OffsetBounds)
    assert (read.start.ms, read.discover) == (1769846400000, None)
    assert [read.stop.get_offset("t", number) for number in (0, 1, 3)] == [17, None, 4]
    several = source_of(
        tmp_path, "brokers: 'b:1', topics: [t, u], start: {offsets: {u: {1: 2}}}, stop: latest"
    )
    assert isinstance(several.start, OffsetBounds)
    assert (several.start.get_offset("u", 1), several.start.get_offset("t", 1)) == (2, None)
    assert (several.stop, several.discover) == ("latest", timedelta(minutes=1))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("topic: t, start: first", "kafka.start: wanted earliest, latest, {timestamp: ...}"),
        ("topic: t, stop: earliest", "kafka.stop: wanted latest, {timestamp: ...} or {offsets"),
        ("topic: t, start: {}", "kafka.start: wanted one of timestamp and offsets, got none"),
        ("topic: t, start: {timestamp: 17}", "kafka.start.timestamp: wanted a time such as"),
        ("topic: t, start: {offsets: {x: 1}}", "kafka.start.offsets.x: wanted the number of"),
        ("topic: t, start: {offsets: {0: -1}}", "kafka.start.offsets.0: wanted an offset"),
        ("topics: [t, u], start: {offsets: {0: 1}}", "kafka.start.offsets: wanted offsets by"),
        (
            "topics: [t, u], start: {offsets: {v: {0: 1}}}",
            'kafka.start.offsets.v: the topic "v" is not read',
        ),
    ],
)
def test_invalid_bounds_are_reported(written: str, message: str, tmp_path: Path) -> None:
    said = messages(tmp_path, f"brokers: 'b:1', {written}")
    assert len(said) == 1 and said[0].startswith(message), said


def test_a_sink_s_defaults(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "topic: {expr: value}")
    assert (sink.row_topic, sink.delivery, sink.compression) == ("value", "at_least_once", "none")
    assert (sink.transaction_timeout, sink.on_lost_transaction) == (timedelta(minutes=15), "fail")


@pytest.mark.parametrize("key", ["transaction_timeout: 1m", "on_lost_transaction: warn"])
def test_transaction_options_are_refused_without_transactions(key: str, tmp_path: Path) -> None:
    sink = f"kafka: {{brokers: 'b:1', topic: t, {key}}}"
    said = messages(tmp_path, "brokers: 'b:1', topic: t", sink)
    assert len(said) == 1 and said[0].endswith("applies only to transactions")


USER = "username: u, password: '${secret:PW}'"


@pytest.mark.parametrize(
    ("security", "message"),
    [
        (f"mechanism: PLAIN, {USER}", '"mechanism" does not go with "protocol: plaintext"'),
        ("ca: x", '"ca" does not go with "protocol: plaintext"'),
        ("protocol: sasl_plaintext", '"sasl_plaintext" needs "mechanism" as well'),
        ("protocol: sasl_ssl, mechanism: PLAIN, username: u", 'PLAIN needs "password" as well'),
        (f"protocol: ssl, {USER}", '"username" does not go with "protocol: ssl"'),
        (f"protocol: sasl_ssl, mechanism: OAUTHBEARER, {USER}", 'OAUTHBEARER needs "token"'),
        ("protocol: ssl, key: k", '"key" needs "cert" as well'),
        ("protocol: ssl, key_password: '${env:PW}'", '"key_password" needs "key" as well'),
    ],
)
def test_conflicting_security_options_are_reported(
    security: str, message: str, tmp_path: Path
) -> None:
    said = messages(tmp_path, f"brokers: 'b:1', topic: t, security: {{{security}}}")
    assert any(message in one for one in said), said


def test_a_password_does_not_stand_in_the_file(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "brokers: 'b:1', topic: t, security: {protocol: sasl_ssl, mechanism: PLAIN, username: u, "
        f"password: {PASSWORD}}}",
    )
    (problem,) = found.problems
    assert (
        problem.message == "kafka.security.password: a secret must not stand in the pipeline's file"
    )
    assert PASSWORD not in render_problem(problem)


@pytest.mark.parametrize("password", ["${secret:PW}", "${env:PW}", "a${env:PW}"])
def test_a_password_is_shown_nowhere(password: str, tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "brokers: 'b:1', topic: t, security: {protocol: sasl_ssl, mechanism: PLAIN, username: u, "
        f"password: '{password}'}}",
    )
    plan, problems = build_plan(found)
    assert plan is not None and not problems
    source = plan.part("s")
    options = found.pipeline.sources["s"].options
    assert isinstance(options, KafkaSource) and options.security.password is not None
    assert options.security.password.reveal().endswith(PASSWORD)
    shown = f"{plan} {options} {format_options(options)} {location_text(source)}"
    assert PASSWORD not in shown and "****" in shown
    assert location_text(source) == "kafka t, raw"


def test_an_option_of_security_is_named_with_its_place(tmp_path: Path) -> None:
    found = loaded(tmp_path, "brokers: 'b:1', topic: t, username: u, sasl: x")
    assert [problem.hint for problem in found.problems] == [
        'it belongs inside "security": security: {username: ...}',
        'did you mean "security"?',
    ]
