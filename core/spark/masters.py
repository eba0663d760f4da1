"""Check that a master answers: Spark itself retries for a minute and then reports another error."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

from headrace.core.spark.absent import SparkUnavailable

CONNECT_TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"(?:https?://)?(?P<host>\[[^\]]+\]|[^:/,]+)(?::(?P<port>\d+))?")
_DEFAULT_PORTS = {"spark": 7077, "k8s": 443}


def check_reachable(master: str) -> None:
    """Check that the master accepts connections, if it has an address. Raises SparkUnavailable."""
    refused = ""
    for host, port in master_addresses(master):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            why = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error))
            refused = refused or f"{host}:{port}: {why.lower()}"
    if refused:
        hint = "is it running, and may this machine reach it?"
        raise SparkUnavailable(
            f"--master {master} cannot be reached: {refused}", hint, exit_status=1
        )


def master_addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield the addresses of a master; one that answers is enough.

    >>> list(master_addresses("spark://one:7077,two:7078")), list(master_addresses("k8s://https://api:6443"))
    ([('one', 7077), ('two', 7078)], [('api', 6443)])
    >>> list(master_addresses("local[*]"))
    []
    """
    scheme, _, rest = master.partition("://")
    if scheme in _DEFAULT_PORTS:
        for one in rest.split(","):
            if found := _ADDRESS.match(one):
                host, port = found["host"].strip("[]"), found["port"]
                yield host, int(port) if port else _DEFAULT_PORTS[scheme]
