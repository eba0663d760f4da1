"""Which subtask of a source reads which split. No clock, no I/O.

Splits are dealt out in turn, as they are discovered; each once, however often it is found again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from headrace.core.messages import Assign, Split, SubtaskId


@dataclass(slots=True)
class Dealing:
    """The splits of one source that are known, and whose turn it is."""

    readers: tuple[SubtaskId, ...]
    grows: bool
    """Whether there may be more splits than at first."""
    _known: set[Split] = field(default_factory=set)
    _turn: int = 0

    def first(self, found: Sequence[Split]) -> list[Assign]:
        """What every subtask is told at first, also those that get none."""
        dealt = self._deal(found, self.readers)
        return [Assign(s, tuple(dealt[s]), last=not self.grows) for s in self.readers]

    def more(self, found: Sequence[Split], running: Collection[SubtaskId]) -> list[Assign]:
        """What those that get splits that were not known before are told."""
        readers = tuple(reader for reader in self.readers if reader in running)
        if not readers:
            return []
        dealt = self._deal([split for split in found if split not in self._known], readers)
        return [Assign(s, tuple(splits), last=False) for s, splits in dealt.items() if splits]

    def _deal(
        self, splits: Sequence[Split], readers: tuple[SubtaskId, ...]
    ) -> dict[SubtaskId, list[tuple[Split, None]]]:
        dealt: dict[SubtaskId, list[tuple[Split, None]]] = {reader: [] for reader in readers}
        for split in splits:
            numbered = replace(split, number=self._turn)
            dealt[readers[self._turn % len(readers)]].append((numbered, None))
            self._turn += 1
        self._known.update(splits)
        return dealt
