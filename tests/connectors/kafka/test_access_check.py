"""`validate --connect` describes external systems without changing them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import headrace as group
from tests.support.cli.command_line import Headrace
from tests.support.kafka.broker import Broker
from tests.support.kafka.secured_broker import OTHER, OTHER_PASSWORD, USER, Secured
from tests.support.kafka.topics import Topics

Fresh = Callable[..., str]


def asked(folder: Path, document: str) -> tuple[int, str]:
    """Run `validate --connect`; return the exit status and the output."""
    path = folder / "p.yaml"
    path.write_text(document)
    # As users do: a command that is asked alone remembers other words for help ever after.
    result = CliRunner().invoke(group, ["validate", "--connect", str(path)])
    return result.exit_code, result.stdout


def document(source: str, sink: str) -> str:
    return (
        f"name: t\nsources:\n  s: {{kafka: {{{source}}}, format: raw}}\n"
        f"sinks:\n  o: {{from: s, kafka: {{{sink}}}, format: raw}}\n"
    )


def test_the_check_describes_topics_and_changes_nothing(
    broker: Broker, topics: Topics, fresh: Fresh, tmp_path: Path
) -> None:
    read, written = topics.create(fresh("in"), 3), topics.create(fresh("out"), 2)
    at = f"brokers: '{broker.address}'"
    text = document(f"{at}, topic: {read}", f"{at}, topic: {written}, delivery: exactly_once")
    assert asked(tmp_path, text) == (
        0,
        f"source s: kafka: topic {read}: 3 partitions, may be read\n"
        f"sink o: kafka: topic {written}: 2 partitions, may be written to\n",
    )
    assert topics.visible(written, committed=False) == []


def test_a_topic_that_is_not_there_is_not_made(
    broker: Broker, topics: Topics, fresh: Fresh, tmp_path: Path
) -> None:
    read, written = topics.create(fresh("in")), fresh("out")
    at = f"brokers: '{broker.address}'"
    status, told = asked(tmp_path, document(f"{at}, topic: {read}", f"{at}, topic: {written}"))
    assert status == 1
    assert f'sink o: there is no topic "{written}"' in told
    assert f"source s: kafka: topic {read}: 1 partition, may be read" in told
    assert written not in topics.names()


def test_a_time_that_the_broker_does_not_allow(
    broker: Broker, topics: Topics, fresh: Fresh, tmp_path: Path
) -> None:
    topic, at = topics.create(fresh()), f"brokers: '{broker.address}'"
    sink = f"{at}, topic: {topic}, delivery: exactly_once, transaction_timeout: 1h"
    status, told = asked(tmp_path, document(f"{at}, topic: {topic}", sink))
    assert status != 0
    assert "sink o: " in told and "transaction" in told.partition("sink o: ")[2]


@pytest.mark.parametrize("right", ["source", "sink"])
def test_denied_access_is_reported(
    right: str,
    secured: Secured,
    fresh: Fresh,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = Topics(secured.broker.address)
    open_, closed = ours.create(fresh("open")), ours.create(fresh("closed"))
    secured.only_for(USER, closed)
    monkeypatch.setenv("HEADRACE_SECRET_PW", OTHER_PASSWORD)
    at = (
        f"brokers: '{secured.at('SASL_PLAINTEXT')}', security: {{protocol: sasl_plaintext, "
        f"mechanism: PLAIN, username: {OTHER}, password: '${{secret:PW}}'}}"
    )
    read, written = (closed, open_) if right == "source" else (open_, closed)
    status, told = asked(tmp_path, document(f"{at}, topic: {read}", f"{at}, topic: {written}"))
    assert status == 1
    denied, fine = ("source s", "sink o") if right == "source" else ("sink o", "source s")
    assert "may be" in told.partition(f"{fine}: ")[2].partition("\n")[0]
    assert "access is denied" in told.partition(f"{denied}: ")[2].partition("\n")[0]
    assert OTHER_PASSWORD not in told


def test_unreachable_brokers_are_reported_for_each_part(tmp_path: Path) -> None:
    text = document("brokers: '127.0.0.1:1', topic: x", "brokers: '127.0.0.1:2', topic: x")
    status, told = asked(tmp_path, text)
    assert status == 1
    assert "source s: the broker 127.0.0.1:1 cannot be reached: nothing listens there" in told
    assert "sink o: the broker 127.0.0.1:2 cannot be reached" in told


def test_a_run_that_is_refused_says_of_which_part(
    headrace: Headrace, broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    read, there = topics.create(fresh("in")), f"brokers: '{broker.address}'"
    nowhere = f"{there}, topic: {read}x"
    for source, sink, said in (
        ("brokers: '127.0.0.1:1', topic: x", nowhere, "s: the broker 127.0.0.1:1 cannot be"),
        (nowhere, nowhere, f's: there is no topic "{read}x"'),
        (f"{there}, topic: {read}", nowhere, f'o: there is no topic "{read}x"'),
    ):
        Path("p.yaml").write_text(document(source, sink))
        ran = headrace("run", "p.yaml")
        assert ran.status == 1
        assert f"p.yaml: {said}" in ran.err
