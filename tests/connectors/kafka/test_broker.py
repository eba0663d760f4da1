"""The broker of tests: it does not lose what it was given, and does not outlive who started it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from tests.support.kafka.broker import Broker, serves
from tests.support.kafka.broker_jars import COORDINATES, VERSION, NoKafka
from tests.support.kafka.secured_broker import OTHER, OTHER_PASSWORD, PASSWORD, USER, Secured
from tests.support.kafka.topics import QUIET, Record, Settings, Topics

Fresh = Callable[..., str]


def records(*values: bytes, partition: int = 0) -> list[Record]:
    return [Record(value, partition=partition) for value in values]


def test_a_kill_loses_no_committed_record_and_no_open_transaction(
    broker: Broker, topics: Topics, fresh: Fresh
) -> None:
    topic = topics.create(fresh())
    topics.transaction(topic, records(b"committed"), commit=True)
    topics.transaction(topic, records(b"aborted"), commit=False)
    opened = topics.begin(topic, records(b"open"))
    broker.kill()
    assert not serves(broker.ports["PLAINTEXT"])
    broker.start()
    assert [record.value for record in topics.visible(topic)] == [b"committed"]
    opened.commit_transaction(60.0)
    assert topics.values(topic) == [b"committed", b"open"]
    everything = {record.value for record in topics.visible(topic, committed=False)}
    assert everything == {b"committed", b"aborted", b"open"}


def test_a_paused_broker_does_not_answer_until_it_is_resumed(broker: Broker, fresh: Fresh) -> None:
    broker.pause()
    try:
        assert not serves(broker.ports["PLAINTEXT"])
    finally:
        broker.resume()
    # A client that was connected before may take a minute to believe it.
    topics = Topics(broker.address)
    assert topics.create(fresh()) in topics.names()


def test_no_broker_outlives_who_started_it(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from tests.support.kafka.broker import Broker\n"
        "broker = Broker(pathlib.Path(sys.argv[1]))\n"
        "broker.start()\n"
        "print(broker.ports['PLAINTEXT'], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    died = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    port = int(died.stdout)
    deadline = time.monotonic() + 60
    while serves(port):
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)


def test_what_keeps_a_broker_from_starting_is_shown(tmp_path: Path) -> None:
    broker = Broker(tmp_path, settings={"log.retention.hours": "for ever"})
    with pytest.raises(NoKafka, match="for ever"):
        broker.start()


def test_jars_that_cannot_be_fetched_are_named(tmp_path: Path) -> None:
    nowhere = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9")
    script = "from tests.support.kafka.broker_jars import classpath; classpath()"
    tried = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **nowhere, "NO_PROXY": "", "no_proxy": "", "HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert tried.returncode
    said = tried.stderr.splitlines()[-1]
    assert f"could not fetch the jars of Kafka {VERSION} by their coordinates" in said
    assert COORDINATES in said


def test_topics_are_made_widened_emptied_and_deleted(topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh(), partitions=2, max_message_bytes="1000")
    topics.write(topic, [Record(b"%d" % n, partition=n % 2) for n in range(10)])
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        topics.write(topic, records(bytes(2000)))
    assert topics.ends(topic) == {0: 5, 1: 5}
    topics.delete_records(topic, {0: 3})
    assert topics.begins(topic) == {0: 3, 1: 0}
    assert topics.values(topic) == [b"6", b"8", b"1", b"3", b"5", b"7", b"9"]
    topics.widen(topic, 3)
    assert topics.partitions(topic) == [0, 1, 2]
    topics.delete(topic)
    assert topic not in topics.names()


def test_records_come_back_as_they_were_written(topics: Topics, fresh: Fresh) -> None:
    topic = topics.create(fresh(), partitions=2)
    whole = Record(b"value", b"key", 1, (("h", b"1"), ("h", None)), 1_700_000_000_123)
    topics.write(topic, [whole, Record(None, b"gone", 1, timestamp_ms=5)], compression_type="zstd")
    first, second = topics.read(topic)
    assert first == Record(b"value", b"key", 1, whole.headers, 1_700_000_000_123, 0)
    assert second == Record(None, b"gone", 1, (), 5, 1)


def token(name: str) -> str:
    """Return an unsigned token: {"alg": "none"}."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": name, "iat": now, "exp": now + 600}
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return (b".".join(coded) + b".").decode()


def known(mechanism: str, name: str = USER, password: str = PASSWORD) -> Settings:
    """A user of librdkafka's."""
    return {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}


def client_of(secured: Secured, listener: str, settings: Settings) -> dict[str, Any]:
    """Return the settings of a client of that listener."""
    protocol = {"MTLS": "SSL"}.get(listener, listener)
    wanted = {"bootstrap.servers": secured.at(listener), "security.protocol": protocol.lower()}
    if protocol.endswith("SSL"):
        wanted["ssl.ca.location"] = str(secured.certificates.authority)
    return {**wanted, **QUIET, **settings}


def names_seen(secured: Secured, listener: str, settings: Settings) -> set[str]:
    """List the topics that a user sees."""
    admin = AdminClient(client_of(secured, listener, settings))
    return set(admin.list_topics(timeout=60).topics)


def reason_of_refusal(secured: Secured, listener: str, settings: Settings) -> str:
    """Return the reason for which a client is refused."""
    said: list[KafkaError] = []
    told: dict[str, Any] = {"error_cb": said.append}
    admin = AdminClient(client_of(secured, listener, settings) | told)
    deadline = time.monotonic() + 60
    while not said:
        assert time.monotonic() < deadline, "the client is not refused"
        admin.poll(0.05)
    return said[0].name()


@pytest.fixture
def there(secured: Secured, fresh: Fresh) -> str:
    """A topic of the secured broker."""
    return Topics(secured.at("PLAINTEXT")).create(fresh())


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_knows_a_password_is_let_in(
    secured: Secured, there: str, listener: str, mechanism: str
) -> None:
    assert there in names_seen(secured, listener, known(mechanism))
    wrong = known(mechanism, password="wrong")
    assert reason_of_refusal(secured, listener, wrong) == "_AUTHENTICATION"


def test_who_has_a_token_is_let_in(secured: Secured, there: str) -> None:
    def given(_: str) -> tuple[str, float]:
        return token(USER), time.time() + 600

    mechanism: dict[str, Any] = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": given}
    assert there in names_seen(secured, "SASL_PLAINTEXT", mechanism)


def test_clients_need_certificates(secured: Secured, there: str) -> None:
    files = secured.certificates
    shown = {
        "ssl.certificate.location": str(files.client),
        "ssl.key.location": str(files.client_key),
    }
    assert there in names_seen(secured, "SSL", {})
    assert there in names_seen(secured, "MTLS", shown)
    # Who is not let in, or does not like the certificate, may hear only of a connection that ends.
    assert reason_of_refusal(secured, "MTLS", {}) in {"_SSL", "_TRANSPORT"}
    strange = {"ssl.ca.location": str(files.stranger)}
    assert reason_of_refusal(secured, "SSL", strange) in {"_SSL", "_TRANSPORT"}


def test_a_topic_of_somebody_is_not_there_for_others(secured: Secured, there: str) -> None:
    secured.only_for(USER, there)
    assert there in names_seen(secured, "SASL_PLAINTEXT", known("PLAIN"))
    other = known("PLAIN", OTHER, OTHER_PASSWORD)
    assert there not in names_seen(secured, "SASL_PLAINTEXT", other)
