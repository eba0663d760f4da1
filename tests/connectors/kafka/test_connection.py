"""Failed connections to brokers: reasons and hints, without passwords."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import socket
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.connectors.kafka.connection import CONNECT_TIMEOUT_S, check_reachable, connect_client
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.connectors.registry import REGISTRY
from headrace.core.api.failures import ConnectorError
from headrace.core.pipeline.loader import load_pipeline
from tests.support.kafka.secured_broker import OTHER_PASSWORD, PASSWORD, USER, Secured

SOON_S = 0.2


def options(folder: Path, brokers: str, security: str = "", **secrets: str) -> KafkaSource:
    path = folder / "p.yaml"
    kafka = f"brokers: {brokers}, topic: t{', security: {' + security + '}' if security else ''}"
    path.write_text(
        f"name: t\nsources:\n  s:\n    kafka: {{{kafka}}}\n    format: raw\n"
        "sinks:\n  o: {from: s, console: {}}\n"
    )
    env = {f"HEADRACE_SECRET_{name}": value for name, value in secrets.items()}
    found = load_pipeline(path, REGISTRY, env=env)
    assert not found.problems, found.problems
    source = found.pipeline.sources["s"].options
    assert isinstance(source, KafkaSource)
    return source


def refused(
    source: KafkaSource, folder: Path, longest_s: float = CONNECT_TIMEOUT_S
) -> ConnectorError:
    """Return the error, after checking that it shows no password."""
    with pytest.raises(ConnectorError) as raised:
        asyncio.run(check_reachable(source, folder, longest_s))
    said = f"{raised.value.message} {raised.value.hint}"
    assert PASSWORD not in said and OTHER_PASSWORD not in said
    return raised.value


def brokers_known(source: KafkaSource, folder: Path) -> int:
    async def ask() -> int:
        client = await connect_client(source, folder)
        try:
            return len(client.cluster.brokers())
        finally:
            await client.close()
            await let_go()

    return asyncio.run(ask())


async def let_go() -> None:
    """The client does not wait for all that it closes, and TLS needs an answer to be closed."""
    while any(isinstance(o, SSLProtocol) and o._transport for o in gc.get_objects()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.fixture
def silent() -> Iterator[str]:
    """Something that takes connections, and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def refusing() -> str:
    """A port where nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_port_where_nothing_listens(refusing: str, tmp_path: Path) -> None:
    error = refused(options(tmp_path, refusing), tmp_path)
    assert error.message == f"the broker {refusing} cannot be reached: nothing listens there"


def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    error = refused(options(tmp_path, "no-such-host.invalid:9092"), tmp_path)
    assert error.message.endswith("cannot be reached: there is no such host")


def test_what_takes_connections_and_says_nothing_is_waited_for_no_longer_than_said(
    silent: str, tmp_path: Path
) -> None:
    error = refused(options(tmp_path, silent), tmp_path, SOON_S)
    assert "it accepts connections, but does not answer" in error.message


def test_each_unreachable_broker_is_listed(silent: str, refusing: str, tmp_path: Path) -> None:
    error = refused(options(tmp_path, f"[{refusing}, {silent}]"), tmp_path, SOON_S)
    assert error.message.startswith("no broker can be reached\n")
    assert f"\n  {refusing}: nothing listens there" in error.message
    assert f"\n  {silent}: it accepts connections" in error.message


def test_one_broker_that_answers_is_enough(
    silent: str, refusing: str, secured: Secured, tmp_path: Path
) -> None:
    three = f"[{refusing}, {secured.broker.address}]"
    assert brokers_known(options(tmp_path, three), tmp_path) == 1
    asyncio.run(
        check_reachable(options(tmp_path, f"[{silent}, {secured.broker.address}]"), tmp_path)
    )


USES = "username: alice, password: '${secret:PW}'"


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_who_is_known(
    listener: str, mechanism: str, secured: Secured, tmp_path: Path
) -> None:
    said = f"protocol: {listener.lower()}, mechanism: {mechanism}, {USES}"
    if listener == "SASL_SSL":
        said += f", ca: {secured.certificates.authority}"
    source = options(tmp_path, secured.at(listener), said, PW=PASSWORD)
    assert brokers_known(source, tmp_path) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password(mechanism: str, secured: Secured, tmp_path: Path) -> None:
    said = f"protocol: sasl_plaintext, mechanism: {mechanism}, {USES}"
    source = options(tmp_path, secured.at("SASL_PLAINTEXT"), said, PW=OTHER_PASSWORD)
    error = refused(source, tmp_path)
    assert f"it rejects the user and password ({mechanism}, user {USER})" in error.message


def test_tls_with_a_ca_file_next_to_the_pipeline(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(secured.certificates.authority.read_bytes())
    source = options(tmp_path, secured.at("SSL"), "protocol: ssl, ca: ca.pem")
    assert brokers_known(source, tmp_path) == 1


def test_a_client_certificate(secured: Secured, tmp_path: Path) -> None:
    files = secured.certificates
    ours = f"ca: {files.authority}, cert: {files.client}, key: {files.client_key}"
    source = options(tmp_path, secured.at("MTLS"), f"protocol: ssl, {ours}")
    assert brokers_known(source, tmp_path) == 1


def test_no_client_certificate_where_one_is_wanted(secured: Secured, tmp_path: Path) -> None:
    ca = secured.certificates.authority
    source = options(tmp_path, secured.at("MTLS"), f"protocol: ssl, ca: {ca}")
    error = refused(source, tmp_path)
    assert "it requires a client certificate" in error.message
    assert "cert: FILE" in error.hint


@pytest.mark.parametrize("said", ["protocol: ssl", "protocol: ssl, ca: {stranger}"])
def test_a_broker_that_is_not_trusted(said: str, secured: Secured, tmp_path: Path) -> None:
    said = said.format(stranger=secured.certificates.stranger)
    error = refused(options(tmp_path, secured.at("SSL"), said), tmp_path)
    assert "its certificate is not trusted" in error.message
    assert error.hint == "name a trusted CA: security: {ca: FILE}"


def test_a_certificate_of_another_name(secured: Secured, tmp_path: Path) -> None:
    port = secured.broker.ports["SSL"]
    ca = secured.certificates.authority
    error = refused(options(tmp_path, f"127.0.0.2:{port}", f"protocol: ssl, ca: {ca}"), tmp_path)
    assert "nothing listens" in error.message or "of another name" in error.message


def test_tls_where_there_is_none(secured: Secured, tmp_path: Path) -> None:
    ca = secured.certificates.authority
    source = options(tmp_path, secured.at("PLAINTEXT"), f"protocol: ssl, ca: {ca}")
    error = refused(source, tmp_path)
    assert "not speak TLS there" in f"{error.message} {error.hint}"


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_no_tls_where_there_is(listener: str, secured: Secured, tmp_path: Path) -> None:
    error = refused(options(tmp_path, secured.at(listener)), tmp_path)
    assert "speak TLS there: say security: {protocol: ssl}" in error.hint


def test_a_missing_user_is_reported(secured: Secured, tmp_path: Path) -> None:
    error = refused(options(tmp_path, secured.at("SASL_PLAINTEXT")), tmp_path)
    assert "sasl_plaintext where it asks for a user" in error.hint


def test_an_unexpected_user_is_reported(secured: Secured, tmp_path: Path) -> None:
    said = f"protocol: sasl_plaintext, mechanism: PLAIN, {USES}"
    error = refused(options(tmp_path, secured.broker.address, said, PW=PASSWORD), tmp_path)
    assert "it expects no user there" in error.message


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("ca: none.pem", "ca: {folder}/none.pem: no such file or directory"),
        ("ca: p.yaml", "ca: {folder}/p.yaml: it holds no certificate in PEM form"),
        ("cert: none.pem", "cert: {folder}/none.pem: no such file or directory"),
        ("cert: p.yaml", "cert: {folder}/p.yaml: there is no certificate and key in PEM form"),
        ("cert: {client}", "cert: {client}: there is no certificate and key in PEM form"),
        ("cert: {client}, key: {other}", "key: {other}: it is not the key of {client}"),
    ],
)
def test_files_that_are_no_certificates(
    said: str, message: str, secured: Secured, tmp_path: Path
) -> None:
    files = {
        "folder": str(tmp_path),
        "client": str(secured.certificates.client),
        "other": str(secured.certificates.broker),
    }
    source = options(tmp_path, "127.0.0.1:1", f"protocol: ssl, {said.format(**files)}")
    error = refused(source, tmp_path)
    assert (error.message, error.exit_status, error.is_final) == (message.format(**files), 2, True)


def test_a_token(secured: Secured, tmp_path: Path) -> None:
    """The broker of tests takes unsigned ones, as of alice."""

    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    now = int(time.time())
    claims = {"sub": USER, "iat": now, "exp": now + 600}
    token = f"{part({'alg': 'none'})}.{part(claims)}."
    said = "protocol: sasl_plaintext, mechanism: OAUTHBEARER, token: '${secret:TOKEN}'"
    source = options(tmp_path, secured.at("SASL_PLAINTEXT"), said, TOKEN=token)
    assert brokers_known(source, tmp_path) == 1
    error = refused(
        options(tmp_path, secured.at("SASL_PLAINTEXT"), said, TOKEN="no-token"), tmp_path
    )
    assert "no-token" not in f"{error.message} {error.hint}"


def test_nothing_is_said_by_the_client_itself(
    refusing: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    refused(options(tmp_path, refusing), tmp_path)
    assert capfd.readouterr() == ("", "")
