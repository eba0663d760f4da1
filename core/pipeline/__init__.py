"""The YAML document as typed objects: from the bytes of a file to valid parts and all problems.

Reading goes in one direction, and each stage knows only the one before it:

    bytes -> text -> YAML nodes -> overrides -> interpolation -> models -> LoadedPipeline

A user error becomes a `Problem` with a position in the file; it never raises an exception.

Tests: tests/core/pipeline, with every message in tests/core/pipeline/test_broken_documents.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.core.pipeline.connector_spec import ConnectorSpecs


def build_json_schema(connectors: ConnectorSpecs) -> dict[str, Any]:
    """Return the JSON Schema of the document, for editors."""
    from headrace.core.pipeline import document_schema

    return document_schema.build_json_schema(connectors)


def build_reference(connectors: ConnectorSpecs) -> str:
    """Return the reference of every key of the document, in Markdown."""
    from headrace.core.pipeline import reference

    return reference.build_reference(connectors)
