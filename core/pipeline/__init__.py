"""The YAML document as typed objects: from the bytes of a file to sound parts and every problem.

Reading goes in one direction, and each station knows only the one before it:

    bytes -> File -> nodes with marks -> overridden -> interpolated data -> pydantic parts -> Loaded

What a user can get wrong is a `Problem` with a place in the file; nothing here raises for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.core.connector import Connectors


def json_schema(connectors: Connectors) -> dict[str, Any]:
    """The JSON Schema of the document, for editors."""
    from headrace.core.pipeline import document_schema

    return document_schema.json_schema(connectors)


def reference_markdown(connectors: Connectors) -> str:
    """Every key of the document, in Markdown."""
    from headrace.core.pipeline import reference

    return reference.reference_markdown(connectors)
