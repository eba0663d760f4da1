"""Connections to brokers, and the reasons for which one fails.

Before anything else, each broker is requested once, all at the same time, because a client that
cannot connect reports nothing more: the reason is only in its log, among a thousand lines that
users should not see. Nothing here waits longer than `LONGEST_S`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, get_ip_port_afi
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from headrace.connectors.kafka.outage import Outage
from headrace.connectors.kafka.reasons import Why, nothing_known, why
from headrace.connectors.kafka.security import Security
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.connectors.kafka.tls import tls_context
from headrace.core.contracts import ConnectorError
from headrace.core.pipeline.text import Text

KafkaOptions: TypeAlias = "KafkaSource | KafkaSink"

CLIENT = "headrace"
LONGEST_S = 10.0
REQUEST_S = 30.0
"""The timeout of a request while the job runs."""
CLOSING_S = 1.0

# aiokafka's log is dropped: `Outage` reports outages, and errors are raised.
_log = logging.getLogger("aiokafka")
_log.setLevel(logging.CRITICAL + 1)
_log.propagate = False
_log.addHandler(logging.NullHandler())


class Token(AbstractTokenProvider):  # type: ignore[misc] # it has no types
    """The OAuth token given in the pipeline."""

    def __init__(self, token: Text) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token.reveal()


def client_arguments(options: KafkaOptions, folder: Path) -> dict[str, Any]:
    """Build the arguments of every aiokafka client; `folder` is the pipeline's.

    Raises ConnectorError.
    """
    return {
        "bootstrap_servers": [broker.reveal() for broker in options.brokers],
        "client_id": CLIENT,
        "request_timeout_ms": round(REQUEST_S * 1000),
        **_secured(options.security, folder),
    }


def _secured(security: Security, folder: Path) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "security_protocol": security.protocol.upper(),
        "ssl_context": tls_context(security, folder),
    }
    if security.mechanism is None:
        return arguments
    arguments["sasl_mechanism"] = security.mechanism
    if security.token is not None:
        arguments["sasl_oauth_token_provider"] = Token(security.token)
    if security.username is not None and security.password is not None:
        arguments["sasl_plain_username"] = security.username.reveal()
        arguments["sasl_plain_password"] = security.password.reveal()
    return arguments


def addresses(options: KafkaOptions) -> str:
    """List the brokers, for a message."""
    return ", ".join(str(broker) for broker in options.brokers)


def outage(name: str, options: KafkaOptions) -> Outage:
    """Build the outage detection of a source or sink of that name."""
    return Outage(name, addresses(options))


async def connected(options: KafkaOptions, folder: Path) -> AIOKafkaClient:
    """Connect a client to the cluster; the caller closes it. Raises ConnectorError."""
    arguments = client_arguments(options, folder)
    await reached(options, folder)
    client = AIOKafkaClient(**arguments)
    try:
        await _bootstrapped(client)
    except (KafkaError, OSError, TimeoutError) as error:
        await client.close()
        raise _nobody([Refusal(addresses(options), why(error, options.security))]) from None
    except BaseException:
        await client.close()
        raise
    return client


async def _bootstrapped(client: AIOKafkaClient) -> None:
    """Bootstrap the client; it gets time to end, as cancelling it would leak a connection."""
    task = asyncio.create_task(client.bootstrap())
    try:
        async with asyncio.timeout(LONGEST_S):
            await asyncio.shield(task)
    finally:
        if not task.done():
            await asyncio.wait([task], timeout=CLOSING_S)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def reached(options: KafkaOptions, folder: Path, longest_s: float = LONGEST_S) -> None:
    """Wait until one broker answers and accepts our credentials. Raises ConnectorError if none."""
    arguments = client_arguments(options, folder)
    servers: list[str] = arguments.pop("bootstrap_servers")
    security = options.security
    asked = {
        asyncio.create_task(_asked(server, security, arguments, longest_s)) for server in servers
    }
    refusals: list[Refusal] = []
    left = asked
    try:
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                refused = task.result()
                if refused is None:
                    return
                refusals.append(refused)
    finally:
        for task in left:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    raise _nobody(refusals)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A broker that could not be reached or refused us, and the reason."""

    server: str
    why: Why


async def _asked(
    server: str, security: Security, arguments: dict[str, Any], longest_s: float
) -> Refusal | None:
    """Request the metadata of a broker; return the refusal if it does not answer."""
    host, port, _ = get_ip_port_afi(server)
    connection = AIOKafkaConnection(host.strip("[]"), port, **arguments)
    try:
        async with asyncio.timeout(longest_s):
            await connection.connect()
            known = await connection.send(MetadataRequest([]))
    except (ConnectionRefusedError, TimeoutError, ssl.SSLError, socket.gaierror) as error:
        connection.close()
        return Refusal(server, why(error, security))
    except (KafkaError, OSError, EOFError, ValueError, AssertionError) as error:
        await _closed(connection)
        return Refusal(server, why(error, security))
    except BaseException:
        connection.close()
        raise
    await _closed(connection)
    # A rejected token raises no error yet: it makes every response empty.
    return None if known.brokers else Refusal(server, nothing_known(security))


async def _closed(connection: AIOKafkaConnection) -> None:
    """Close an established connection, which is released only by the event loop."""
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(1.0):
            await connection.close()


def _nobody(refusals: Sequence[Refusal]) -> ConnectorError:
    """Build the error for unreachable brokers: each with its reason, and the first hint."""
    said = {refusal.server: refusal.why.text for refusal in refusals}
    hint = next((refusal.why.hint for refusal in refusals if refusal.why.hint), "")
    if len(said) == 1:
        ((server, text),) = said.items()
        return ConnectorError(f"the broker {server} cannot be reached: {text}", hint)
    whole = "".join(f"\n  {server}: {text}" for server, text in said.items())
    return ConnectorError(f"no broker can be reached{whole}", hint)
