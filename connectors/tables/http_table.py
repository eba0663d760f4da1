"""The runtime of the `http` lookup: a request for each key; JSON is read as by a source."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import orjson

from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.tables.extras import needed
from headrace.connectors.tables.found import text
from headrace.connectors.tables.http import PLACEHOLDER, HttpOptions
from headrace.connectors.tables.urls import masked
from headrace.core.contracts import FOUND_AT, ConnectorError
from headrace.core.far_times import near
from headrace.core.plan import nodes
from headrace.core.types import Field, Schema

if TYPE_CHECKING:
    import aiohttp
    import polars as pl
    import yarl

NOT_THERE = (204, 404, 410)
MAY_PASS = (408, 425, 429)
REDIRECT = (301, 302, 303, 307, 308)
SHOWN = 10_000
"""Bytes of a response that are masked before a part of them is shown, so no secret is cut."""
LONGEST = 16 << 20
"""The maximum size of a response, in bytes."""


class HttpTable:
    """A `LookupTable` over a server, which is requested for one key at a time."""

    keys_per_call = 1

    def __init__(self, lookup: nodes.Lookup) -> None:
        assert isinstance(lookup.options, HttpOptions)
        needed("aiohttp", "aiohttp", "http")
        self._lookup = lookup
        self._options = lookup.options
        self._session: aiohttp.ClientSession | None = None
        # Nulls are checked where the responses of all keys come together.
        fields = (Field(found.field.name, found.field.type) for found in lookup.add)
        self._decoder = JsonDecoder(Schema(tuple(fields)))

    async def check(self) -> None:
        """Do nothing: without a key there is nothing to request."""

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Request the row of the one key."""
        import aiohttp

        from headrace.connectors.tables.http_trouble import said

        try:
            body = await self._asked(self._url(near(keys).row(0, named=True)))
        except aiohttp.ClientError as error:
            final = isinstance(error, aiohttp.InvalidURL)
            raise ConnectorError(f"{self._host()} {said(error)}", final=final) from None
        return self._frame(None if body is None else self._row(body))

    async def _asked(self, url: yarl.URL) -> bytes | None:
        """Return the response body, following redirects within the same server."""
        from headrace.connectors.tables.http_trouble import REDIRECTS

        for _ in range(REDIRECTS + 1):
            async with self._opened().get(url, allow_redirects=False) as response:
                to = response.headers.get("Location")
                if response.status not in REDIRECT or to is None:
                    return await self._body(response)
            url = self._within(url, to)
        message = f"{self._host()} redirects more than {REDIRECTS} times"
        raise ConnectorError(message, final=True)

    def _within(self, url: yarl.URL, to: str) -> yarl.URL:
        """Resolve a redirect. Credentials are never sent to another server."""
        from yarl import URL

        try:
            there = url.join(URL(to, encoded=True))
            port, origin = there.port, there.origin()
        except ValueError:
            message = f"{self._host()} redirects to an invalid URL"
            raise ConnectorError(message, final=True) from None
        if origin == url.origin():
            return there.with_user(url.user).with_password(url.password) if url.user else there
        hint = "write the URL that it redirects to"
        if there.host == url.host and there.scheme == "https" and port == 443:
            hint = "write https:// in url"
        elif self._masked(str(origin)) == str(origin):
            hint += f"; it begins with {origin}"
        message = f"{self._host()} redirects to another server, which is not followed"
        raise ConnectorError(message, hint, final=True)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            # Its transports are closed in the next turn of the loop.
            await asyncio.sleep(0)

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            headers = {header.name: header.value.reveal() for header in self._options.headers or ()}
            # The caller limits time and concurrency.
            self._session = aiohttp.ClientSession(
                headers={"Accept": "application/json", **headers},
                timeout=aiohttp.ClientTimeout(total=None),
                connector=aiohttp.TCPConnector(limit=self._lookup.concurrency),
            )
        return self._session

    def _url(self, key: Mapping[str, object]) -> yarl.URL:
        from yarl import URL

        url = self._options.url.reveal()
        filled = PLACEHOLDER.sub(lambda found: quote(text(key[found[1]]), safe=""), url)
        try:
            return URL(filled, encoded=True)
        except ValueError:  # its text repeats the URL, which may hold a password
            message = f"{self._host()} cannot be requested: the URL is invalid"
            raise ConnectorError(message, final=True) from None

    def _host(self) -> str:
        return self._options.url.host or "the server"

    def _masked(self, said: str) -> str:
        """Mask the credentials in a server's text."""
        headers = (header.value.reveal() for header in self._options.headers or ())
        words = {word for value in headers for word in (value, *value.split())}
        return masked(said, words | self._options.url.secrets)

    async def _body(self, response: aiohttp.ClientResponse) -> bytes | None:
        """Return the response body, or None if its status means that there is no row."""
        from headrace.connectors.tables.http_trouble import status_said

        status = response.status
        if status in NOT_THERE:
            return None
        if not 200 <= status < 300:
            final = status < 500 and status not in MAY_PASS
            message = f"{self._host()} answered {status_said(status)}"
            raise ConnectorError(message, final=final)
        body = bytearray()
        async for piece in response.content.iter_chunked(1 << 16):
            body += piece
            if len(body) > LONGEST:
                raise ConnectorError(f"{self._host()} answered with more than 16 MB", final=True)
        return bytes(body)

    def _row(self, body: bytes) -> Mapping[str, object] | None:
        """Parse the response body to the row's object."""
        try:
            said = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            shown = self._masked(body[:SHOWN].decode(errors="replace"))[:60]
            message = f"{self._host()} answered with invalid JSON: {error}"
            raise ConnectorError(message, shown) from None
        if self._options.row is not None:
            said = inside(said, self._options.row.reveal())
        if isinstance(said, list) and len(said) < 2:
            said = said[0] if said else None
        if said is None or isinstance(said, dict):
            return said
        came = f"{len(said)} rows" if isinstance(said, list) else "no object"
        raise ConnectorError(f"{self._host()} answered with {came} for a key", final=True)

    def _frame(self, row: Mapping[str, object] | None) -> pl.DataFrame:
        """Return the row as a frame; of no rows if there is none."""
        import polars as pl

        if row is None:
            frame, bad = self._decoder.decode(b"{}\n", 0)
            frame = frame.clear()
        else:
            picked = {f.field.name: inside(row, f.column) for f in self._lookup.add}
            frame, bad = self._decoder.decode(orjson.dumps(picked) + b"\n", 0)
        for each in bad:
            message = f"{self._host()}: {self._masked(each.error)}"
            raise ConnectorError(message, self._masked(each.raw)[:100], final=True)
        at = pl.int_range(frame.height, dtype=pl.UInt32, eager=True).alias(FOUND_AT)
        return frame.insert_column(0, at)


def inside(said: object, name: str) -> object:
    """Return the value under a name, or under a path of names separated by dots.

    >>> inside({"a": {"b": 1}}, "a.b"), inside({"a.b": 2}, "a.b"), inside({}, "a")
    (1, 2, None)
    """
    if not isinstance(said, dict):
        return None
    if name in said:
        return said[name]
    first, dot, rest = name.partition(".")
    return inside(said.get(first), rest) if dot else None


async def look(lookup: nodes.Lookup) -> str:
    """Connect to the server, and describe it. Raises ConnectorError if nothing listens there."""
    table = HttpTable(lookup)

    from headrace.connectors.tables.http_trouble import reason

    at = urlsplit(table._options.url.reveal())
    port = at.port or (443 if at.scheme == "https" else 80)
    try:
        _, writer = await asyncio.open_connection(at.hostname, port)
        writer.close()
    except OSError as error:
        message = f"cannot reach {table._host()}: {reason(error)}"
        raise ConnectorError(message) from None
    return f"{table._options.url}, a server answers there"
