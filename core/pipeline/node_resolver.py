"""The conversion of nodes to plain values: duplicate keys are reported, `${...}` is replaced."""

from __future__ import annotations

from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.interpolation import Interpolator
from headrace.core.pipeline.text import BROKEN, NOTHING, Text
from headrace.core.pipeline.yaml_document.nodes import (
    YamlEntry,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)


class NodeResolver:
    """A converter of nodes to values."""

    def __init__(self, interpolator: Interpolator, findings: DocumentProblems) -> None:
        self.interpolator = interpolator
        self.findings = findings

    def resolve_value(self, node: YamlNode, subject: str) -> object:
        """Return a Text, a dict, a list, NOTHING, or BROKEN if its problem has been reported."""
        match node:
            case YamlScalar():
                return self._resolve_scalar(node, subject)
            case YamlSequence():
                return [self.resolve_value(item, subject) for item in node.items]
            case YamlMapping():
                return {
                    key: self.resolve_value(entry.value, subject)
                    for key, entry in self.resolve_entries(node, subject).items()
                }
        return BROKEN

    def _resolve_scalar(self, node: YamlScalar, subject: str) -> object:
        if node.is_null:
            return NOTHING
        text, problems = self.interpolator.interpolate(node, subject)
        self.findings.extend(problems)
        return BROKEN if text is None else text

    def resolve_entries(self, node: YamlMapping, subject: str) -> dict[Text, YamlEntry]:
        """Return a mapping's entries by key; of a duplicate key, the first."""
        entries: dict[Text, YamlEntry] = {}
        for entry in node.entries:
            key = Text(entry.key.value, entry.key)
            first = entries.get(key)
            if first is not None:
                line = Text(first.key.value, first.key).locate().line
                message = f"duplicate key {quote_key(key)}, first on line {line}"
                self.findings.add(message, key.locate(), subject=subject)
            elif "${" in key:
                message = 'a "${" is replaced in values, not in keys'
                self.findings.add(message, key.locate(), subject=subject)
            else:
                entries[key] = entry
        return entries


def quote_key(key: str) -> str:
    """Return a key in quotes, for a message; a long one is cut.

    >>> quote_key("a"), quote_key("x" * 100)
    ('"a"', '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."')
    """
    return f'"{key}"' if len(key) <= 40 else f'"{key[:37]}..."'
