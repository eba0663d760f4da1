"""Files and folders in memory, with their visible and their durable contents.

Each change of a folder (a new name, a rename, a removal) is one step, in order. A sync makes the
open changes durable. A sync that fails drops them: they may or may not survive a crash, and no
later sync decides that. (Real journaling file systems would rather fail for ever. New folders are
not dropped: otherwise no process could ever trust a folder that another one has created.)
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import field
from typing import Literal, TypeAlias

from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True, eq=False)
class MemoryFile:
    """Visible bytes of a file, and the durable ones."""

    data: bytes = b""
    durable: bytes = b""
    is_dropped: bool = False
    """Whether a sync failed: no later sync writes anything."""

    def draw_crash_data(self, drawn: random.Random) -> bytes:
        """Return what a crash leaves: the old bytes, the new ones, cut short, or with zeros at the
        end.
        """
        if self.data == self.durable:
            return self.data
        cut = drawn.randrange(len(self.data) + 1)
        hole = self.data[:cut] + bytes(len(self.data) - cut)
        return drawn.choice((self.durable, self.data, self.data[:cut], hole))


@dataclass(slots=True)
class FolderChange:
    """Names that are set, and names that are removed (None), all at once or not at all."""

    names: dict[str, MemoryNode | None]
    fate: Literal["open", "safe", "dropped"] = "open"

    @property
    def has_folder(self) -> bool:
        """Whether a name refers to a folder."""
        return any(isinstance(node, MemoryFolder) for node in self.names.values())

    def apply(self, names: dict[str, MemoryNode]) -> None:
        """Apply the change to the names of a folder."""
        for name, node in self.names.items():
            names.pop(name, None)
            if node is not None:
                names[name] = node


@dataclass(slots=True, eq=False)
class MemoryFolder:
    """Visible names of a folder, the durable names, and the changes between them."""

    names: dict[str, MemoryNode] = field(default_factory=dict)
    durable: dict[str, MemoryNode] = field(default_factory=dict)
    changes: list[FolderChange] = field(default_factory=list)

    def apply_change(self, names: dict[str, MemoryNode | None]) -> None:
        """Make a change visible."""
        self.changes.append(FolderChange(names))
        self.changes[-1].apply(self.names)

    def close_changes(self, fate: Literal["safe", "dropped"]) -> None:
        """Give the open changes their fate after a sync or a failed sync."""
        for change in self.changes:
            if change.fate == "open" and (fate == "safe" or not change.has_folder):
                change.fate = fate
        while self.changes and self.changes[0].fate == "safe":
            self.changes.pop(0).apply(self.durable)

    def lose_unsynced(self, drawn: random.Random, seen: set[MemoryFile]) -> None:
        """Become what a crash leaves; a file with two names is drawn once."""
        for change in self.changes:
            if change.fate == "safe" or drawn.random() < 0.5:
                change.apply(self.durable)
        self.names, self.changes = dict(self.durable), []
        for node in self.names.values():
            if isinstance(node, MemoryFolder):
                node.lose_unsynced(drawn, seen)
            elif node not in seen:
                seen.add(node)
                node.data = node.durable = node.draw_crash_data(drawn)
                node.is_dropped = False

    def iterate_files(self) -> Iterator[MemoryFile]:
        """Yield all files in the folder and below."""
        for node in self.names.values():
            if isinstance(node, MemoryFolder):
                yield from node.iterate_files()
            else:
                yield node


MemoryNode: TypeAlias = MemoryFile | MemoryFolder
