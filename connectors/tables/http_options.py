"""The options of `http:` as a lookup table in the pipeline document."""

from __future__ import annotations

import re
from typing import Annotated

from headrace.connectors.tables.urls import Url, make_url_reading
from headrace.core.pipeline.diagnostics import (
    KEY,
    ValueProblemCollector,
    make_expected_error,
    make_value_error,
)
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import read_or_collect
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import AnyText, FieldReading, ScalarReading
from headrace.core.types.lazy_dataclass import dataclass

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
        gathered, headers = ValueProblemCollector(), list[HttpHeader]()
        for key, header in value.items():
            text = read_or_collect(gathered, _header_reading, header, key)
            if not _HEADER_NAME.fullmatch(key):
                gathered.add(make_value_error(key, f'"{key}" is not a header name'), key, KEY)
            elif isinstance(text, Text):
                headers.append(HttpHeader(key, text))
        gathered.raise_if_any()
        return tuple(headers)


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
