"""URLs as they may be shown: where something is, and nothing of what lets somebody in.

Drivers read URLs more freely than the standard has it: a password may have a slash in it. So what
is shown is the scheme, the host and the path, and less where these cannot be told for certain.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from headrace.core.pipeline.complaints import wrong
from headrace.core.pipeline.text import MASK, Text
from headrace.core.pipeline.values import SCALAR, Reads, Unfit

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:(\d*|\{[^{}]*\}))?")
_LETS_IN = re.compile(r"pass|pwd|token|secret|key|auth|sig|code|cred", re.IGNORECASE)
_SIGNS = re.compile(r"[:/@?#&=]+")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
LONG = 4
"""A shorter secret is only masked where it stands as a word: else no text could be read."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL as it was written; it prints without what is secret in it."""

    text: Text

    def reveal(self) -> str:
        """All of it."""
        return self.text.reveal()

    def __str__(self) -> str:
        return MASK if self.text.secret else shown(self.reveal())

    @property
    def place(self) -> Text:
        """Where it stands; its line is shown without it, if it has something to hide."""
        return _hidden(self.text)

    @property
    def user(self) -> str:
        """User and password, as they are written."""
        return _parts(self.reveal())[1].rpartition("@")[0]

    @property
    def host(self) -> str:
        """Host and port if they may be said, or nothing."""
        scheme, at, path, rest = _parts(self.reveal())
        end = len(scheme) + len("://") + len(at)
        secret = self.text.secret and any(begin < end for begin, _ in self._put_in())
        return "" if secret or not _sure(at, path + rest) else at.rpartition("@")[2]

    @property
    def secrets(self) -> frozenset[str]:
        """What others are not to be heard saying."""
        found = {part for said in self._secret() for part in _PLACEHOLDER.split(said)}
        written = [(s, unquote(s), unquote_plus(s), quote(unquote(s), safe="")) for s in found]
        return frozenset(each for ways in written for each in ways if each)

    def _secret(self) -> Iterator[str]:
        scheme, at, path, rest = _parts(self.reveal())
        web = scheme.lower().startswith("http")
        before, has_user, _ = (at + path + rest).rpartition("@") if at else ("", "", "")
        if has_user:
            user, has_password, password = before.partition(":")
            yield from (password, *(_SIGNS.split(password) if not _sure(at, path + rest) else ()))
            if web or not has_password:
                yield user
        query, _, fragment = rest.partition("#")
        for pair in re.split("[&;]", query.removeprefix("?")):
            key, _, value = pair.partition("=")
            if web or _LETS_IN.search(key):
                yield value or key
        yield fragment
        if self.text.secret:
            for begin, end in self._put_in():
                put = self.reveal()[begin:end]
                yield from (put, *(_SIGNS.split(put) if "://" in put else ()))

    def _put_in(self) -> Iterator[tuple[int, int]]:
        """Which characters were put in for `${...}`; all, if nobody knows."""
        shift = 0
        for piece in self.text.pieces:
            begin = piece.start + shift
            shift += piece.length - (piece.end - piece.start)
            yield begin, begin + piece.length
        if not self.text.pieces:
            yield 0, len(self.text)


def shown(url: str) -> str:
    """A URL without what may be secret in it.

    >>> shown("postgresql://me:my@word@host/db?sslkey=x"), shown("http://host:80/{id}#a")
    ('postgresql://****@host/db?****', 'http://host:80/{id}#****')
    >>> shown("postgresql://me:se/same@host/db"), shown("sqlite:///a@b.db")
    ('postgresql://****', 'sqlite:///a@b.db')
    """
    scheme, at, path, rest = _parts(url)
    if not scheme:
        return MASK
    if not _sure(at, path + rest):
        return f"{scheme}://{MASK}"
    _, has_user, host = at.rpartition("@")
    behind = f"{rest[0]}{MASK}" if rest else ""
    return f"{scheme}://{MASK + has_user if has_user else ''}{host}{path}{behind}"


def masked(text: str, secrets: Collection[str]) -> str:
    """What somebody says, without these in it.

    >>> masked("no /sesame for me, some", ["sesame", "me"])
    'no /**** for ****, some'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        escaped = re.escape(secret)
        pattern = escaped if len(secret) >= LONG else rf"(?<!\w){escaped}(?!\w)"
        text = re.sub(pattern, MASK, text, flags=re.IGNORECASE)
    return text


def _parts(url: str) -> tuple[str, str, str, str]:
    """The scheme, user and host, the path, and what stands behind it."""
    found = _URL.fullmatch(url)
    return (found[1], found[2], found[3], found[4]) if found else ("", "", "", "")


def _sure(at: str, behind: str) -> bool:
    """Whether user and host end where they should: no password goes on behind them."""
    return _HOST.fullmatch(at.rpartition("@")[2]) is not None and not (at and "@" in behind)


def _hidden(text: Text) -> Text:
    secret = text.secret or shown(text.reveal()) != text.reveal()
    return Text(text.reveal(), text.scalar, text.pieces, secret) if secret else text


def url_such_as(example: str) -> Reads:
    """Reads a URL; one that is none is not repeated where there may be a password in it."""
    what = f"a URL such as {example}"

    def read(text: Text) -> Url:
        if _URL.fullmatch(text.reveal()):
            return Url(text)
        doubtful = any(sign in text.reveal() for sign in "@?#")
        raise wrong(_hidden(text), f"wanted {what}") if doubtful else Unfit

    return Reads(what, read, SCALAR, secret=True)
