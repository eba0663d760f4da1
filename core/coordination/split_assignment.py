"""The assignment of splits to the subtasks of a source. No clock, no I/O.

Splits are assigned round-robin in the order of their discovery, each once, however often it is
discovered again. The number of a split determines its subtask, so that the splits of a checkpoint
return to the same subtasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace

from headrace.core.api.splits import Progress, Split, SubtaskId
from headrace.core.coordination.messages import AssignSplits
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class SplitAssigner:
    """The known splits of one source, and the number of the next new one."""

    readers: tuple[SubtaskId, ...]
    can_grow: bool
    """Whether splits may be discovered after the start."""
    _known_splits: set[Split] = field(default_factory=set)
    _assignments: dict[SubtaskId, dict[Split, Progress]] = field(default_factory=dict)
    """The splits of each reader, with the progress from which it began to read them."""
    _next_number: int = 0

    def assign_initial(
        self, splits: Sequence[Split], restored: Mapping[Split, Progress] | None = None
    ) -> list[AssignSplits]:
        """Assign the initial splits: one message for each subtask, even if it gets no split.

        From a checkpoint these are its splits, including those that are no longer discovered. Newly
        discovered splits are added to them only if the source may grow.
        """
        dealt = self._empty_assignments(self.readers)
        for split, progress in self._restore_splits(restored or {}):
            reader = self.readers[split.number % len(self.readers)]
            dealt[reader].append((split, progress))
            self._assignments.setdefault(reader, {})[split] = progress
        if restored is None or self.can_grow:
            self._assign(splits, self.readers, dealt)
        return [AssignSplits(s, tuple(dealt[s]), is_last=not self.can_grow) for s in self.readers]

    def assign_new(
        self, found: Sequence[Split], running: Collection[SubtaskId]
    ) -> list[AssignSplits]:
        """Assign the splits that are new: one message for each subtask that gets some."""
        readers = tuple(reader for reader in self.readers if reader in running)
        if not readers:
            return []
        dealt = self._empty_assignments(readers)
        self._assign(found, readers, dealt)
        return [
            AssignSplits(s, tuple(splits), is_last=False) for s, splits in dealt.items() if splits
        ]

    def reassign(
        self, restarted: Collection[SubtaskId], restored: Mapping[Split, Progress]
    ) -> list[AssignSplits]:
        """Assign the splits of restarted readers to them again, from a checkpoint.

        A split that the checkpoint does not have was assigned after it: it is read from where its
        reader began.
        """
        return [
            AssignSplits(
                reader,
                tuple(
                    (split, restored.get(split, progress))
                    for split, progress in self._assignments.get(reader, {}).items()
                ),
                is_last=not self.can_grow,
            )
            for reader in self.readers
            if reader in restarted
        ]

    def _restore_splits(
        self, restored: Mapping[Split, Progress]
    ) -> Iterable[tuple[Split, Progress]]:
        """Yield the splits of a checkpoint in the order of their discovery."""
        for split in sorted(restored, key=lambda split: split.number):
            self._known_splits.add(split)
            self._next_number = split.number + 1
            yield split, restored[split]

    def _assign(
        self,
        found: Sequence[Split],
        readers: tuple[SubtaskId, ...],
        dealt: Mapping[SubtaskId, list[tuple[Split, Progress]]],
    ) -> None:
        for split in found:
            if split not in self._known_splits:
                numbered = replace(split, number=self._next_number)
                reader = readers[self._next_number % len(readers)]
                progress = Progress(split.start_position)
                dealt[reader].append((numbered, progress))
                self._assignments.setdefault(reader, {})[numbered] = progress
                self._known_splits.add(split)
                self._next_number += 1

    def _empty_assignments(
        self, readers: tuple[SubtaskId, ...]
    ) -> dict[SubtaskId, list[tuple[Split, Progress]]]:
        return {reader: [] for reader in readers}
