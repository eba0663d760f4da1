"""The mapping from the location of an error in a model's data to a position in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core.pipeline.nodes import Mapping, Node, Scalar
from headrace.core.pipeline.nodes import Sequence as Items
from headrace.core.pipeline.text import Text
from headrace.core.problems import Place


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the document: its key, its node, its name in messages, and its path."""

    key: Text
    node: Node
    subject: str = ""
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spot:
    """A node and its key."""

    key: Text
    node: Node

    def place(self) -> Place:
        """Return the position of the value; of its key, if it is empty or on lines of its own."""
        match self.node:
            case Scalar(nothing=False) | Scalar(style="="):
                return Text(self.node.value, self.node).locate()
            case Mapping(flow=True) | Items(flow=True):
                return self.node.file.place(self.node.start, self.node.end)
        return self.key.locate()


def find(section: Section, at: Sequence[int | str]) -> Spot:
    """Return the node at a path of keys and indices, or the last node on the way."""
    spot = Spot(section.key, section.node)
    for part in at:
        if isinstance(spot.node, Mapping) and isinstance(part, str):
            entry = spot.node.get(part)
            if entry is None:
                break
            spot = Spot(Text(entry.key.value, entry.key), entry.value)
        elif isinstance(spot.node, Items) and isinstance(part, int):
            spot = Spot(spot.key, spot.node.items[part])
    return spot
