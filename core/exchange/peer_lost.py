"""The error of whoever needs a process that is gone."""

from __future__ import annotations

from headrace.core.api.failures import ConnectorError


class PeerLost(ConnectorError):
    """The process at the other end of a connection is gone, or sends what cannot be read.

    Another attempt, with another process in its place, may succeed.
    """

    is_worker_lost = True

    def __init__(self, peer: str, reason: str, *, is_gone: bool = True) -> None:
        super().__init__(
            f"the connection to {peer} is lost: {reason}", f"the log of {peer} says why"
        )
        self.is_gone = is_gone
        """Whether the peer has closed its end."""
