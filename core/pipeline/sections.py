"""The mapping from the location of an error in a model's data to a position in the file."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.errors.problems import Location
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.nodes import YamlMapping, YamlNode, YamlScalar
from headrace.core.pipeline.yaml_document.nodes import YamlSequence as Items
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A section of the document: its key, its node, its name in messages, and its path."""

    key: Text
    node: YamlNode
    subject: str = ""
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyedNode:
    """A node and its key."""

    key: Text
    node: YamlNode

    def locate(self) -> Location:
        """Return the position of the value; of its key, if it is empty or on lines of its own."""
        match self.node:
            case YamlScalar(is_null=False) | YamlScalar(style="="):
                return Text(self.node.value, self.node).locate()
            case YamlMapping(is_flow=True) | Items(is_flow=True):
                return self.node.file.locate(self.node.start, self.node.end)
        return self.key.locate()


def find_node(section: DocumentSection, at: Sequence[int | str]) -> KeyedNode:
    """Return the node at a path of keys and indices, or the last node on the way."""
    spot = KeyedNode(section.key, section.node)
    for part in at:
        if isinstance(spot.node, YamlMapping) and isinstance(part, str):
            entry = spot.node.get(part)
            if entry is None:
                break
            spot = KeyedNode(Text(entry.key.value, entry.key), entry.value)
        elif isinstance(spot.node, Items) and isinstance(part, int):
            spot = KeyedNode(spot.key, spot.node.items[part])
    return spot
