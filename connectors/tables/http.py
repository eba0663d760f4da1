"""The `http` lookup: a server that answers GET with the row of a key as JSON."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from headrace.connectors.tables.urls import Url, make_url_reading
from headrace.core.connector import Connector, ConnectorMismatch, LookupSide
from headrace.core.contracts import LookupTable, RunContext
from headrace.core.pipeline.complaints import (
    KEY,
    ValueProblemCollector,
    make_expected_error,
    make_value_error,
)
from headrace.core.pipeline.fields import read_or_collect
from headrace.core.pipeline.part import DocumentModel
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import AnyText, FieldReading, ScalarReading
from headrace.core.plan import nodes
from headrace.core.types import Schema

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class HttpHeader:
    """A request header; its value may be a credential, and is never shown."""

    name: str
    value: Text

    def __str__(self) -> str:
        return self.name


class HeadersReading(FieldReading):
    """Reads a mapping of header names to texts."""

    def __init__(self) -> None:
        self.wanted = "names and values of headers, as in {Accept: application/json}"
        self.json = {"type": "object", "additionalProperties": {"type": "string"}}

    def read(self, value: object) -> tuple[HttpHeader, ...]:
        if not isinstance(value, dict) or not value:
            raise make_expected_error(value, self.wanted)
        gathered, found = ValueProblemCollector(), list[HttpHeader]()
        for key, said in value.items():
            text = read_or_collect(gathered, _header_reading, said, key)
            if not _HEADER_NAME.fullmatch(key):
                gathered.add(make_value_error(key, f'"{key}" is not a header name'), key, KEY)
            elif isinstance(text, Text):
                found.append(HttpHeader(key, text))
        gathered.raise_if_any()
        return tuple(found)


def _check_one_line(text: Text) -> Text:
    if any(sign in text.reveal() for sign in "\n\r\0"):
        raise make_value_error(text, "a header is one line")
    return text


_header_reading = ScalarReading("a text", _check_one_line, allows_secret=True)


class HttpOptions(DocumentModel):
    """A call for each key: the response is a JSON object, whose fields are the columns.

    An array of one object stands for that object. 404, 410, 204, `null` and an empty array mean
    that there is no row. Redirects to another scheme, host or port are not followed. Other statuses
    than 2xx are failures; of those, 408, 425, 429 and 5xx are retried.
    """

    origin = ("url",)

    url: Annotated[Url, make_url_reading("https://host/customers/{id}")] = Field(
        description="The URL to request; `{id}` stands for the column `id` of `on`, "
        "percent-encoded. It is shown without its secrets."
    )
    headers: Annotated[tuple[HttpHeader, ...] | None, HeadersReading()] = Field(
        None, description="Headers of each request; their values are never shown."
    )
    row: AnyText | None = Field(
        None,
        description="The path of the row in the response, as in `data.customer`; by default the "
        "whole response.",
    )


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


def _open_table(lookup: nodes.Lookup, surroundings: RunContext) -> LookupTable:
    from headrace.connectors.tables.http_table import HttpTable

    return HttpTable(lookup)


def _describe_table(lookup: nodes.Lookup, surroundings: RunContext) -> Awaitable[str]:
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
