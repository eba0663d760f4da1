"""Files and folders in memory, with their visible and their durable contents.

Each change of a folder (a new name, a rename, a removal) is one step, in order. A sync makes the
open changes durable. A sync that fails drops them: they may or may not survive a crash, and no
later sync decides that. (Real journaling file systems would rather fail for ever. New folders are
not dropped: otherwise no process could ever trust a folder that another one has created.)
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(slots=True, eq=False)
class File:
    """Visible bytes of a file, and the durable ones."""

    data: bytes = b""
    safe: bytes = b""
    is_dropped: bool = False
    """Whether a sync failed: no later sync writes anything."""

    def left(self, drawn: random.Random) -> bytes:
        """Return what a crash leaves: the old bytes, the new ones, cut short, or with zeros at the
        end.
        """
        if self.data == self.safe:
            return self.data
        cut = drawn.randrange(len(self.data) + 1)
        hole = self.data[:cut] + bytes(len(self.data) - cut)
        return drawn.choice((self.safe, self.data, self.data[:cut], hole))


@dataclass(slots=True)
class Change:
    """Names that are set, and names that are removed (None), all at once or not at all."""

    names: dict[str, Node | None]
    fate: Literal["open", "safe", "dropped"] = "open"

    @property
    def is_of_folder(self) -> bool:
        """Whether a name refers to a folder."""
        return any(isinstance(node, Folder) for node in self.names.values())

    def apply(self, names: dict[str, Node]) -> None:
        """Apply the change to the names of a folder."""
        for name, node in self.names.items():
            names.pop(name, None)
            if node is not None:
                names[name] = node


@dataclass(slots=True, eq=False)
class Folder:
    """Visible names of a folder, the durable names, and the changes between them."""

    names: dict[str, Node] = field(default_factory=dict)
    safe: dict[str, Node] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def change(self, names: dict[str, Node | None]) -> None:
        """Make a change visible."""
        self.changes.append(Change(names))
        self.changes[-1].apply(self.names)

    def close(self, fate: Literal["safe", "dropped"]) -> None:
        """Give the open changes their fate after a sync or a failed sync."""
        for change in self.changes:
            if change.fate == "open" and (fate == "safe" or not change.is_of_folder):
                change.fate = fate
        while self.changes and self.changes[0].fate == "safe":
            self.changes.pop(0).apply(self.safe)

    def lose(self, drawn: random.Random, seen: set[File]) -> None:
        """Become what a crash leaves; a file with two names is drawn once."""
        for change in self.changes:
            if change.fate == "safe" or drawn.random() < 0.5:
                change.apply(self.safe)
        self.names, self.changes = dict(self.safe), []
        for node in self.names.values():
            if isinstance(node, Folder):
                node.lose(drawn, seen)
            elif node not in seen:
                seen.add(node)
                node.data = node.safe = node.left(drawn)
                node.is_dropped = False

    def files(self) -> Iterator[File]:
        """Yield all files in the folder and below."""
        for node in self.names.values():
            if isinstance(node, Folder):
                yield from node.files()
            else:
                yield node


Node: TypeAlias = File | Folder
