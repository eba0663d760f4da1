"""TCP ports of servers on this machine."""

from __future__ import annotations

import errno
import socket

HOST = "127.0.0.1"
LISTEN_BACKLOG = 128
"""Connections that the system queues while the loop is busy."""


class PortUnavailable(Exception):
    """The port cannot be used: the reason, and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def open_port(port: int, host: str = HOST) -> socket.socket:
    """Open a socket that listens on the port; 0 is any free port. Raises PortUnavailable."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(LISTEN_BACKLOG)
    except OSError as error:
        made.close()
        why = (error.strerror or str(error)).lower()
        is_taken = error.errno == errno.EADDRINUSE
        prefix = "another process listens there: " if is_taken else ""
        hint = f"{prefix}choose another port, or 0 for any free port"
        raise PortUnavailable(
            f"--http {port}: cannot listen on {host}:{port}: {why}", hint
        ) from None
    return made


def format_url(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
