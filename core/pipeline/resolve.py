"""From nodes to plain values: duplicate keys reported, `${...}` replaced."""

from __future__ import annotations

from collections.abc import Mapping as Environment
from pathlib import Path

from headrace.core.pipeline.data import BROKEN, NOTHING
from headrace.core.pipeline.nodes import Mapping, Node, Scalar, Sequence
from headrace.core.pipeline.text import Text
from headrace.core.problems import Problem


class Resolver:
    """Makes values of nodes; gathers what is wrong with them."""

    def __init__(self, folder: Path, env: Environment[str, str]) -> None:
        self.folder = folder
        self.env = env
        self.problems: list[Problem] = []

    def value(self, node: Node, subject: str) -> object:
        """Text, dict, list, NOTHING or BROKEN."""
        match node:
            case Scalar():
                return NOTHING if node.nothing else Text(node.value, node)
            case Sequence():
                return [self.value(item, subject) for item in node.items]
            case Mapping():
                return self.entries(node, subject)
        return BROKEN

    def entries(self, node: Mapping, subject: str) -> dict[Text, object]:
        """A mapping's values by key; of a key written twice, the first."""
        found: dict[Text, object] = {}
        for entry in node.entries:
            key = Text(entry.key.value, entry.key)
            if key in found:
                self.problems.append(
                    Problem(f'the key "{key}" stands twice', key.locate(), subject=subject)
                )
            else:
                found[key] = self.value(entry.value, subject)
        return found
