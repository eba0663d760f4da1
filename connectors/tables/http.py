"""The `http` lookup: a server that answers GET with the row of a key as JSON."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator
from urllib.parse import urlsplit

from headrace.connectors.tables.http_options import PLACEHOLDER, HttpOptions
from headrace.core.api.lookup_tables import LookupTable
from headrace.core.api.run_context import RunContext
from headrace.core.pipeline.connector_spec import ConnectorMismatch
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, LookupSide
from headrace.core.types.data_types import Schema


def find_mismatches(
    options: DocumentModel, keys: Schema, added: Schema
) -> Iterator[ConnectorMismatch]:
    """Yield the reasons for which the URL and headers cannot be used with these keys."""
    assert isinstance(options, HttpOptions)
    url = options.url.location
    named = PLACEHOLDER.findall(url.reveal())
    for name in dict.fromkeys(named):
        if name not in keys:
            hint = f"on has {', '.join(keys.names)}"
            yield ConnectorMismatch(f'url: "{{{name}}}" is not in on', url, hint)
    for name in keys.names:
        if name not in named:
            message = f'url: column "{name}" of on has no placeholder in it'
            yield ConnectorMismatch(message, url, f"write {{{name}}} where it belongs")
    if not re.match(r"https?://", url.reveal(), re.IGNORECASE):
        yield ConnectorMismatch("url: wanted http:// or https://", url)
    elif not _has_host(url.reveal()):
        hint = "in a password, percent-encode all but letters and digits: %2F for /"
        yield ConnectorMismatch("url: wanted a host, and after a colon its port, if any", url, hint)
    says = next((h for h in options.headers or () if h.name.lower() == "authorization"), None)
    if says is not None and options.url.user:
        message = "url has a user, and headers has Authorization: only one may authenticate"
        yield ConnectorMismatch(message, url, "remove one of them")


def _has_host(url: str) -> bool:
    """Whether the URL has a host and a valid port; placeholders may stand for any part of it."""
    try:
        at = urlsplit(PLACEHOLDER.sub("1", url))
        return bool(at.hostname) and (at.port is None or at.port > 0)
    except ValueError:
        return False


def _open_table(lookup: nodes.Lookup, run_context: RunContext) -> LookupTable:
    from headrace.connectors.tables.http_table import HttpTable

    return HttpTable(lookup)


def _describe_table(lookup: nodes.Lookup, run_context: RunContext) -> Awaitable[str]:
    from headrace.connectors.tables.http_table import describe_table

    return describe_table(lookup)


HTTP = Connector(
    "http",
    "An HTTP server.",
    lookup=LookupSide(
        HttpOptions,
        open=_open_table,
        describe_external=_describe_table,
        find_mismatches=find_mismatches,
    ),
)
