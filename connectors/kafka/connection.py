"""Connections to brokers, and the reasons for which one fails.

Before anything else, each broker is requested once, all at the same time, because a client that
cannot connect reports nothing more: the reason is only in its log, among a thousand lines that
users should not see. Nothing here waits longer than `CONNECT_TIMEOUT_S`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, get_ip_port_afi
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from headrace.connectors.kafka.connection_errors import (
    FailureReason,
    explain_empty_response,
    explain_error,
)
from headrace.connectors.kafka.retry import Outage
from headrace.connectors.kafka.security import Security
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.connectors.kafka.tls import build_tls_context
from headrace.core.api.failures import ConnectorError
from headrace.core.pipeline.text import Text
from headrace.core.types.lazy_dataclass import dataclass

KafkaOptions: TypeAlias = "KafkaSource | KafkaSink"

CLIENT_ID = "headrace"
CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 30.0
"""The timeout of a request while the job runs."""
CLOSE_TIMEOUT_S = 1.0

# aiokafka's log is dropped: `Outage` reports outages, and errors are raised.
_log = logging.getLogger("aiokafka")
_log.setLevel(logging.CRITICAL + 1)
_log.propagate = False
_log.addHandler(logging.NullHandler())


class OAuthToken(AbstractTokenProvider):  # type: ignore[misc] # it has no types
    """The OAuth token given in the pipeline."""

    def __init__(self, token: Text) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token.reveal()


def build_client_arguments(options: KafkaOptions, folder: Path) -> dict[str, Any]:
    """Build the arguments of every aiokafka client; `folder` is the pipeline's.

    Raises ConnectorError.
    """
    return {
        "bootstrap_servers": [broker.reveal() for broker in options.brokers],
        "client_id": CLIENT_ID,
        "request_timeout_ms": round(REQUEST_TIMEOUT_S * 1000),
        **_build_security_arguments(options.security, folder),
    }


def _build_security_arguments(security: Security, folder: Path) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "security_protocol": security.protocol.upper(),
        "ssl_context": build_tls_context(security, folder),
    }
    if security.mechanism is None:
        return arguments
    arguments["sasl_mechanism"] = security.mechanism
    if security.token is not None:
        arguments["sasl_oauth_token_provider"] = OAuthToken(security.token)
    if security.username is not None and security.password is not None:
        arguments["sasl_plain_username"] = security.username.reveal()
        arguments["sasl_plain_password"] = security.password.reveal()
    return arguments


def format_addresses(options: KafkaOptions) -> str:
    """List the brokers, for a message."""
    return ", ".join(str(broker) for broker in options.brokers)


def build_outage(name: str, options: KafkaOptions) -> Outage:
    """Build the outage detection of a source or sink of that name."""
    return Outage(name, format_addresses(options))


async def connect_client(options: KafkaOptions, folder: Path) -> AIOKafkaClient:
    """Connect a client to the cluster; the caller closes it. Raises ConnectorError."""
    arguments = build_client_arguments(options, folder)
    await check_reachable(options, folder)
    client = AIOKafkaClient(**arguments)
    try:
        await _bootstrap_client(client)
    except (KafkaError, OSError, TimeoutError) as error:
        await client.close()
        raise _build_unreachable_error(
            [BrokerRefusal(format_addresses(options), explain_error(error, options.security))]
        ) from None
    except BaseException:
        await client.close()
        raise
    return client


async def _bootstrap_client(client: AIOKafkaClient) -> None:
    """Bootstrap the client; it gets time to end, as cancelling it would leak a connection."""
    task = asyncio.create_task(client.bootstrap())
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await asyncio.shield(task)
    finally:
        if not task.done():
            await asyncio.wait([task], timeout=CLOSE_TIMEOUT_S)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def check_reachable(
    options: KafkaOptions, folder: Path, longest_s: float = CONNECT_TIMEOUT_S
) -> None:
    """Wait until one broker answers and accepts our credentials. Raises ConnectorError if none."""
    arguments = build_client_arguments(options, folder)
    servers: list[str] = arguments.pop("bootstrap_servers")
    security = options.security
    requests = {
        asyncio.create_task(_request_metadata(server, security, arguments, longest_s))
        for server in servers
    }
    refusals: list[BrokerRefusal] = []
    pending = requests
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                refused = task.result()
                if refused is None:
                    return
                refusals.append(refused)
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
    raise _build_unreachable_error(refusals)


@dataclass(frozen=True, slots=True)
class BrokerRefusal:
    """A broker that could not be reached or refused us, and the reason."""

    server: str
    reason: FailureReason


async def _request_metadata(
    server: str, security: Security, arguments: dict[str, Any], longest_s: float
) -> BrokerRefusal | None:
    """Request the metadata of a broker; return the refusal if it does not answer."""
    host, port, _ = get_ip_port_afi(server)
    connection = AIOKafkaConnection(host.strip("[]"), port, **arguments)
    try:
        async with asyncio.timeout(longest_s):
            await connection.connect()
            known = await connection.send(MetadataRequest([]))
    except (ConnectionRefusedError, TimeoutError, ssl.SSLError, socket.gaierror) as error:
        connection.close()
        return BrokerRefusal(server, explain_error(error, security))
    except (KafkaError, OSError, EOFError, ValueError, AssertionError) as error:
        await _close_connection(connection)
        return BrokerRefusal(server, explain_error(error, security))
    except BaseException:
        connection.close()
        raise
    await _close_connection(connection)
    # A rejected token raises no error yet: it makes every response empty.
    return None if known.brokers else BrokerRefusal(server, explain_empty_response(security))


async def _close_connection(connection: AIOKafkaConnection) -> None:
    """Close an established connection, which is released only by the event loop."""
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(1.0):
            await connection.close()


def _build_unreachable_error(refusals: Sequence[BrokerRefusal]) -> ConnectorError:
    """Build the error for unreachable brokers: each with its reason, and the first hint."""
    reasons = {refusal.server: refusal.reason.text for refusal in refusals}
    hint = next((refusal.reason.hint for refusal in refusals if refusal.reason.hint), "")
    if len(reasons) == 1:
        ((server, text),) = reasons.items()
        return ConnectorError(f"the broker {server} cannot be reached: {text}", hint)
    whole = "".join(f"\n  {server}: {text}" for server, text in reasons.items())
    return ConnectorError(f"no broker can be reached{whole}", hint)
