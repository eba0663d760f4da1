"""The runtime of the `http` lookup: a request for each key; JSON is read as by a source."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import orjson

from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.tables.client_libraries import import_extra
from headrace.connectors.tables.http_options import PLACEHOLDER, HttpOptions
from headrace.connectors.tables.row_conversion import format_value
from headrace.connectors.tables.urls import mask_secrets
from headrace.core.api.failures import ConnectorError
from headrace.core.api.lookup_tables import LOOKUP_KEY_INDEX
from headrace.core.plan import nodes
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.out_of_range_times import format_out_of_range

if TYPE_CHECKING:
    import aiohttp
    import polars as pl
    import yarl

NO_ROW_STATUSES = (204, 404, 410)
RETRIED_STATUSES = (408, 425, 429)
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
MASKED_BYTES = 10_000
"""Bytes of a response that are masked before a part of them is shown, so no secret is cut."""
MAX_RESPONSE_BYTES = 16 << 20
"""The maximum size of a response, in bytes."""


class HttpTable:
    """A `LookupTable` over a server, which is requested for one key at a time."""

    max_keys_per_call = 1

    def __init__(self, lookup: nodes.Lookup) -> None:
        assert isinstance(lookup.options, HttpOptions)
        import_extra("aiohttp", "this lookup", "aiohttp", "http")
        self._lookup = lookup
        self._options = lookup.options
        self._session: aiohttp.ClientSession | None = None
        # Nulls are checked where the responses of all keys come together.
        fields = (Field(found.field.name, found.field.type) for found in lookup.columns)
        self._decoder = JsonDecoder(Schema(tuple(fields)))

    async def check(self) -> None:
        """Do nothing: without a key there is nothing to request."""

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Request the row of the one key."""
        import aiohttp

        from headrace.connectors.tables.http_errors import describe_error

        try:
            body = await self._request(
                self._build_url(format_out_of_range(keys).row(0, named=True))
            )
        except aiohttp.ClientError as error:
            final = isinstance(error, aiohttp.InvalidURL)
            raise ConnectorError(
                f"{self._format_host()} {describe_error(error)}", final=final
            ) from None
        return self._build_frame(None if body is None else self._parse_row(body))

    async def _request(self, url: yarl.URL) -> bytes | None:
        """Return the response body, following redirects within the same server."""
        from headrace.connectors.tables.http_errors import MAX_REDIRECTS

        for _ in range(MAX_REDIRECTS + 1):
            async with self._open_session().get(url, allow_redirects=False) as response:
                to = response.headers.get("Location")
                if response.status not in REDIRECT_STATUSES or to is None:
                    return await self._read_body(response)
            url = self._resolve_redirect(url, to)
        message = f"{self._format_host()} redirects more than {MAX_REDIRECTS} times"
        raise ConnectorError(message, final=True)

    def _resolve_redirect(self, url: yarl.URL, to: str) -> yarl.URL:
        """Resolve a redirect. Credentials are never sent to another server."""
        from yarl import URL

        try:
            there = url.join(URL(to, encoded=True))
            port, origin = there.port, there.origin()
        except ValueError:
            message = f"{self._format_host()} redirects to an invalid URL"
            raise ConnectorError(message, final=True) from None
        if origin == url.origin():
            return there.with_user(url.user).with_password(url.password) if url.user else there
        hint = "write the URL that it redirects to"
        if there.host == url.host and there.scheme == "https" and port == 443:
            hint = "write https:// in url"
        elif self._mask(str(origin)) == str(origin):
            hint += f"; it begins with {origin}"
        message = f"{self._format_host()} redirects to another server, which is not followed"
        raise ConnectorError(message, hint, final=True)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            # Its transports are closed in the next turn of the loop.
            await asyncio.sleep(0)

    def _open_session(self) -> aiohttp.ClientSession:
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

    def _build_url(self, key: Mapping[str, object]) -> yarl.URL:
        from yarl import URL

        url = self._options.url.reveal()
        filled = PLACEHOLDER.sub(lambda found: quote(format_value(key[found[1]]), safe=""), url)
        try:
            return URL(filled, encoded=True)
        except ValueError:  # its text repeats the URL, which may hold a password
            message = f"{self._format_host()} cannot be requested: the URL is invalid"
            raise ConnectorError(message, final=True) from None

    def _format_host(self) -> str:
        return self._options.url.host or "the server"

    def _mask(self, text: str) -> str:
        """Mask the credentials in a server's text."""
        headers = (header.value.reveal() for header in self._options.headers or ())
        words = {word for value in headers for word in (value, *value.split())}
        return mask_secrets(text, words | self._options.url.secrets)

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes | None:
        """Return the response body, or None if its status means that there is no row."""
        from headrace.connectors.tables.http_errors import format_status

        status = response.status
        if status in NO_ROW_STATUSES:
            return None
        if not 200 <= status < 300:
            final = status < 500 and status not in RETRIED_STATUSES
            message = f"{self._format_host()} answered {format_status(status)}"
            raise ConnectorError(message, final=final)
        body = bytearray()
        async for piece in response.content.iter_chunked(1 << 16):
            body += piece
            if len(body) > MAX_RESPONSE_BYTES:
                raise ConnectorError(
                    f"{self._format_host()} answered with more than 16 MB", final=True
                )
        return bytes(body)

    def _parse_row(self, body: bytes) -> Mapping[str, object] | None:
        """Parse the response body to the row's object."""
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            shown = self._mask(body[:MASKED_BYTES].decode(errors="replace"))[:60]
            message = f"{self._format_host()} answered with invalid JSON: {error}"
            raise ConnectorError(message, shown) from None
        if self._options.row is not None:
            document = get_nested(document, self._options.row.reveal())
        if isinstance(document, list) and len(document) < 2:
            document = document[0] if document else None
        if document is None or isinstance(document, dict):
            return document
        actual = f"{len(document)} rows" if isinstance(document, list) else "no object"
        raise ConnectorError(f"{self._format_host()} answered with {actual} for a key", final=True)

    def _build_frame(self, row: Mapping[str, object] | None) -> pl.DataFrame:
        """Return the row as a frame; of no rows if there is none."""
        import polars as pl

        if row is None:
            frame, bad = self._decoder.decode(b"{}\n", 0)
            frame = frame.clear()
        else:
            picked = {f.field.name: get_nested(row, f.column) for f in self._lookup.columns}
            frame, bad = self._decoder.decode(orjson.dumps(picked) + b"\n", 0)
        for each in bad:
            message = f"{self._format_host()}: {self._mask(each.error)}"
            raise ConnectorError(message, self._mask(each.raw)[:100], final=True)
        at = pl.int_range(frame.height, dtype=pl.UInt32, eager=True).alias(LOOKUP_KEY_INDEX)
        return frame.insert_column(0, at)


def get_nested(document: object, name: str) -> object:
    """Return the value under a name, or under a path of names separated by dots.

    >>> get_nested({"a": {"b": 1}}, "a.b"), get_nested({"a.b": 2}, "a.b"), get_nested({}, "a")
    (1, 2, None)
    """
    if not isinstance(document, dict):
        return None
    if name in document:
        return document[name]
    first, dot, rest = name.partition(".")
    return get_nested(document.get(first), rest) if dot else None


async def describe_table(lookup: nodes.Lookup) -> str:
    """Connect to the server, and describe it. Raises ConnectorError if nothing listens there."""
    table = HttpTable(lookup)

    from headrace.connectors.tables.http_errors import describe_os_error

    at = urlsplit(table._options.url.reveal())
    port = at.port or (443 if at.scheme == "https" else 80)
    try:
        _, writer = await asyncio.open_connection(at.hostname, port)
        writer.close()
    except OSError as error:
        message = f"cannot reach {table._format_host()}: {describe_os_error(error)}"
        raise ConnectorError(message) from None
    return f"{table._options.url}, a server answers there"
