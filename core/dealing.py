"""Which subtask of a source reads which split. No clock, no I/O.

Splits are dealt out in turn, as they are discovered; each once, however often it is found again.
The number of a split says whose turn it was, so those of a checkpoint go to the same readers again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.core.messages import Assign, Progress, Split, SubtaskId


@dataclass(slots=True)
class Dealing:
    """The splits of one source that are known, and whose turn it is."""

    readers: tuple[SubtaskId, ...]
    grows: bool
    """Whether there may be more splits than at first."""
    _known: set[Split] = field(default_factory=set)
    _turn: int = 0

    def first(
        self, found: Sequence[Split], restored: Mapping[Split, Progress] | None = None
    ) -> list[Assign]:
        """What every subtask is told at first, also those that get none.

        Behind a checkpoint these are its splits, also those that are not found any more; what is
        found beside them counts where there may be more than at first.
        """
        dealt = self._nothing(self.readers)
        for split, progress in self._again(restored or {}):
            dealt[self.readers[split.number % len(self.readers)]].append((split, progress))
        if restored is None or self.grows:
            self._deal(found, self.readers, dealt)
        return [Assign(s, tuple(dealt[s]), last=not self.grows) for s in self.readers]

    def more(self, found: Sequence[Split], running: Collection[SubtaskId]) -> list[Assign]:
        """What those that get splits that were not known before are told."""
        readers = tuple(reader for reader in self.readers if reader in running)
        if not readers:
            return []
        dealt = self._nothing(readers)
        self._deal(found, readers, dealt)
        return [Assign(s, tuple(splits), last=False) for s, splits in dealt.items() if splits]

    def _again(self, restored: Mapping[Split, Progress]) -> Iterable[tuple[Split, Progress]]:
        """The splits of a checkpoint, in the order in which they were discovered."""
        for split in sorted(restored, key=lambda split: split.number):
            self._known.add(split)
            self._turn = split.number + 1
            yield split, restored[split]

    def _deal(
        self,
        found: Sequence[Split],
        readers: tuple[SubtaskId, ...],
        dealt: Mapping[SubtaskId, list[tuple[Split, Progress]]],
    ) -> None:
        for split in found:
            if split not in self._known:
                numbered = replace(split, number=self._turn)
                reader = readers[self._turn % len(readers)]
                dealt[reader].append((numbered, Progress(split.start)))
                self._known.add(split)
                self._turn += 1

    def _nothing(
        self, readers: tuple[SubtaskId, ...]
    ) -> dict[SubtaskId, list[tuple[Split, Progress]]]:
        return {reader: [] for reader in readers}
