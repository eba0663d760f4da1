"""The conversion of nodes to plain values: duplicate keys are reported, `${...}` is replaced."""

from __future__ import annotations

from headrace.core.pipeline.data import BROKEN, NOTHING
from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.interpolate import Interpolator
from headrace.core.pipeline.nodes import Entry, Mapping, Node, Scalar, Sequence
from headrace.core.pipeline.text import Text


class Resolver:
    """A converter of nodes to values."""

    def __init__(self, interpolator: Interpolator, findings: Findings) -> None:
        self.interpolator = interpolator
        self.findings = findings

    def value(self, node: Node, subject: str) -> object:
        """Return a Text, a dict, a list, NOTHING, or BROKEN if its problem has been reported."""
        match node:
            case Scalar():
                return self._scalar(node, subject)
            case Sequence():
                return [self.value(item, subject) for item in node.items]
            case Mapping():
                return {
                    key: self.value(entry.value, subject)
                    for key, entry in self.entries(node, subject).items()
                }
        return BROKEN

    def _scalar(self, node: Scalar, subject: str) -> object:
        if node.nothing:
            return NOTHING
        text, problems = self.interpolator.text(node, subject)
        self.findings.extend(problems)
        return BROKEN if text is None else text

    def entries(self, node: Mapping, subject: str) -> dict[Text, Entry]:
        """Return a mapping's entries by key; of a duplicate key, the first."""
        found: dict[Text, Entry] = {}
        for entry in node.entries:
            key = Text(entry.key.value, entry.key)
            first = found.get(key)
            if first is not None:
                line = Text(first.key.value, first.key).locate().line
                message = f"duplicate key {named(key)}, first on line {line}"
                self.findings.add(message, key.locate(), subject=subject)
            elif "${" in key:
                message = 'a "${" is replaced in values, not in keys'
                self.findings.add(message, key.locate(), subject=subject)
            else:
                found[key] = entry
        return found


def named(key: str) -> str:
    """Return a key in quotes, for a message; a long one is cut.

    >>> named("a"), named("x" * 100)
    ('"a"', '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."')
    """
    return f'"{key}"' if len(key) <= 40 else f'"{key[:37]}..."'
