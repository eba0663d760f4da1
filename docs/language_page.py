"""docs/language.md: every key of a pipeline file, from the typed objects that read it."""

from __future__ import annotations

from headrace.connectors.registry import REGISTRY
from headrace.core.pipeline import build_reference


def language_page() -> str:
    """The whole page."""
    return build_reference(REGISTRY)
