"""Files and folders in memory, of which is known what is seen and what is safe.

Each change of a folder (a name given, a rename, a removal) is one step, in order. A sync makes safe
those it finds open. A sync that fails drops them: they may be there after a crash or not, and no
later sync decides it. (Real ones, with a journal, would rather fail for ever. New folders are not
dropped, or nobody could ever trust a folder that somebody else has made.)
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(slots=True, eq=False)
class File:
    """A file's bytes as they are seen, and those that are safe."""

    data: bytes = b""
    safe: bytes = b""
    is_dropped: bool = False
    """A sync of it failed: none that follows writes anything."""

    def left(self, drawn: random.Random) -> bytes:
        """What a crash leaves: as it was, as it is, cut short, or with a hole at its end."""
        if self.data == self.safe:
            return self.data
        cut = drawn.randrange(len(self.data) + 1)
        hole = self.data[:cut] + bytes(len(self.data) - cut)
        return drawn.choice((self.safe, self.data, self.data[:cut], hole))


@dataclass(slots=True)
class Change:
    """Names that are given, and names (None) that go, all at once or not at all."""

    names: dict[str, Node | None]
    fate: Literal["open", "safe", "dropped"] = "open"

    @property
    def is_of_folder(self) -> bool:
        """Whether it names a folder."""
        return any(isinstance(node, Folder) for node in self.names.values())

    def apply(self, names: dict[str, Node]) -> None:
        """Do it."""
        for name, node in self.names.items():
            names.pop(name, None)
            if node is not None:
                names[name] = node


@dataclass(slots=True, eq=False)
class Folder:
    """What a folder names as it is seen, and what leads there from what was safe once."""

    names: dict[str, Node] = field(default_factory=dict)
    safe: dict[str, Node] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def change(self, names: dict[str, Node | None]) -> None:
        """Let it be seen."""
        self.changes.append(Change(names))
        self.changes[-1].apply(self.names)

    def close(self, fate: Literal["safe", "dropped"]) -> None:
        """A sync has found what is open."""
        for change in self.changes:
            if change.fate == "open" and (fate == "safe" or not change.is_of_folder):
                change.fate = fate
        while self.changes and self.changes[0].fate == "safe":
            self.changes.pop(0).apply(self.safe)

    def lose(self, drawn: random.Random, seen: set[File]) -> None:
        """Be what a crash leaves; a file with two names is settled once."""
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
        """All that are in it, and in the folders below."""
        for node in self.names.values():
            if isinstance(node, Folder):
                yield from node.files()
            else:
                yield node


Node: TypeAlias = File | Folder
