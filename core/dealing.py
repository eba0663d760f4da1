"""The assignment of splits to the subtasks of a source. No clock, no I/O.

Splits are assigned round-robin in the order of their discovery, each once, however often it is
discovered again. The number of a split determines its subtask, so that the splits of a checkpoint
return to the same subtasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.core.messages import Assign, Progress, Split, SubtaskId


@dataclass(slots=True)
class Dealing:
    """The known splits of one source, and the number of the next new one."""

    readers: tuple[SubtaskId, ...]
    grows: bool
    """Whether splits may be discovered after the start."""
    _known: set[Split] = field(default_factory=set)
    _turn: int = 0

    def first(
        self, found: Sequence[Split], restored: Mapping[Split, Progress] | None = None
    ) -> list[Assign]:
        """Assign the initial splits: one message for each subtask, even if it gets no split.

        From a checkpoint these are its splits, including those that are no longer discovered. Newly
        discovered splits are added to them only if the source may grow.
        """
        dealt = self._nothing(self.readers)
        for split, progress in self._again(restored or {}):
            dealt[self.readers[split.number % len(self.readers)]].append((split, progress))
        if restored is None or self.grows:
            self._deal(found, self.readers, dealt)
        return [Assign(s, tuple(dealt[s]), last=not self.grows) for s in self.readers]

    def more(self, found: Sequence[Split], running: Collection[SubtaskId]) -> list[Assign]:
        """Assign the splits that are new: one message for each subtask that gets some."""
        readers = tuple(reader for reader in self.readers if reader in running)
        if not readers:
            return []
        dealt = self._nothing(readers)
        self._deal(found, readers, dealt)
        return [Assign(s, tuple(splits), last=False) for s, splits in dealt.items() if splits]

    def _again(self, restored: Mapping[Split, Progress]) -> Iterable[tuple[Split, Progress]]:
        """Yield the splits of a checkpoint in the order of their discovery."""
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
