"""docs/language.md: every key of a pipeline file, from the typed objects that read it."""

from __future__ import annotations

from headrace.connectors.registry import REGISTRY
from headrace.core.pipeline import reference_markdown


def language_page() -> str:
    """The whole page."""
    return reference_markdown(REGISTRY)
