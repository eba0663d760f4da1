"""Tokens of requests over TCP: one that may do everything, and one that may only look.

A token is stored in a file that only its owner may read, so that the next server has the same.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from contextlib import suppress
from typing import Literal, TypeAlias

from headrace.cli.server.server_folder import ServerFolder
from headrace.core.types.lazy_dataclass import dataclass

Role: TypeAlias = Literal["owner", "viewer"]

TOKEN_BYTES = 32
TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
FILE_MODE = 0o600
SCHEME = "bearer"


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """The tokens of a server."""

    owner: str
    viewer: str | None
    """The token of viewers; None: there are no viewers."""

    def find_role(self, authorization: str) -> Role | None:
        """Return the role of a request by its header `Authorization`; None without a valid token.

        >>> tokens = AccessTokens("abc", None)
        >>> tokens.find_role("Bearer abc"), tokens.find_role("Bearer abd"), tokens.find_role("")
        ('owner', None, None)
        """
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode()
        if scheme.lower() != SCHEME:
            return None
        if hmac.compare_digest(given, self.owner.encode()):
            return "owner"
        is_viewer = self.viewer is not None and hmac.compare_digest(given, self.viewer.encode())
        return "viewer" if is_viewer else None


def load_tokens(folder: ServerFolder, *, renew: bool, read_only: bool) -> AccessTokens:
    """Load the tokens of a home, or create those that are missing. Raises OSError."""
    viewer_path = folder.get_token_path(read_only=True)
    viewer = _load_token(viewer_path, renew=renew) if read_only else None
    if renew and not read_only:
        with suppress(FileNotFoundError):
            os.unlink(viewer_path)
    return AccessTokens(_load_token(folder.get_token_path(), renew=renew), viewer)


def _load_token(path: str, *, renew: bool) -> str:
    with suppress(FileNotFoundError, UnicodeDecodeError):
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
        if TOKEN.fullmatch(token) and not renew:
            os.chmod(path, FILE_MODE)
            return token
    token = secrets.token_urlsafe(TOKEN_BYTES)
    temporary = f"{path}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    os.replace(temporary, path)
    return token
