"""The smallest case that still fails: first events are left out, then rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from headrace.cli.simulation.random_case import CaseStep, RandomCase
from headrace.core.pipeline.pipeline_tests.model import ControlEvent
from headrace.core.testing.bound_tests import BoundEvent, FedIdleness, FedRows, FedWatermark
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class Shrinker:
    """Leaves out what a case needs not to fail; gives up at `until_s` of the clock."""

    fails: Callable[[RandomCase], bool]
    until_s: float

    def shrink(self, case: RandomCase) -> RandomCase:
        """Return the smallest case that was found."""
        for candidates in (_leave_out_steps, _leave_out_faults, _leave_out_rows, _join_splits):
            case = self._apply(case, candidates)
        return self._apply(case, _leave_out_steps)

    def _apply(
        self, case: RandomCase, candidates: Callable[[RandomCase], Iterator[RandomCase]]
    ) -> RandomCase:
        """Take a smaller case as long as one fails."""
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for smaller in candidates(case):
                if time.monotonic() > self.until_s:
                    return case
                if can_be_compared(smaller.steps) and self.fails(smaller):
                    case, is_smaller = smaller, True
                    break
        return case


def can_be_compared(steps: Sequence[CaseStep]) -> bool:
    """Whether splits that are idle get rows only in steps that provide for it."""
    idle = set[tuple[str, int]]()
    for step in steps:
        before = frozenset(idle)
        fed = set[tuple[str, int]]()
        for event in step.events:
            match event:
                case FedIdleness(source, splits):
                    idle |= {(source, split) for split in splits}
                case FedWatermark(source):
                    idle = {each for each in idle if each[0] != source}
                    before = frozenset(idle)
                case FedRows(source, splits):
                    fed |= {(source, at) for at, rows in enumerate(splits) if rows}
                    every = {(source, at) for at in range(len(splits))}
                    if idle & fed and len(step.events) == 1:
                        return False
                    if every <= before and len(fed) > 1:
                        return False
                    idle -= fed
    return True


def _list_chunks(count: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of a list: halves, quarters, down to single items, from the last."""
    size = (count + 1) // 2
    while size:
        for start in reversed(range(0, count, size)):
            yield start, min(start + size, count)
        size = size // 2


def _leave_out_steps(case: RandomCase) -> Iterator[RandomCase]:
    """Yield the case without some steps; the end stays."""
    for start, end in _list_chunks(len(case.steps)):
        steps = (*case.steps[:start], *case.steps[end:])
        if steps and steps[-1].events[-1] == ControlEvent("end"):
            yield replace(case, steps=steps)


def _leave_out_faults(case: RandomCase) -> Iterator[RandomCase]:
    for at, step in enumerate(case.steps):
        if step.fault is not None:
            yield _replace_step(case, at, replace(step, fault=None))


def _leave_out_rows(case: RandomCase) -> Iterator[RandomCase]:
    """Yield the case without some rows of a split."""
    for at, step in enumerate(case.steps):
        for place, event in enumerate(step.events):
            for split, rows in enumerate(event.splits if isinstance(event, FedRows) else ()):
                assert isinstance(event, FedRows)
                for start, end in _list_chunks(len(rows)):
                    left = (*rows[:start], *rows[end:])
                    splits = (*event.splits[:split], left, *event.splits[split + 1 :])
                    fewer = replace(event, splits=splits)
                    events = (*step.events[:place], fewer, *step.events[place + 1 :])
                    yield _replace_step(case, at, replace(step, events=events))


def _join_splits(case: RandomCase) -> Iterator[RandomCase]:
    """Yield the case with one split of a source, if its splits have no part in it."""
    idle = {event.source for event in case.events if isinstance(event, FedIdleness)}
    for source, count in case.split_counts.items():
        if count > 1 and source not in idle:
            steps = (
                replace(step, events=tuple(_join(event, source) for event in step.events))
                for step in case.steps
            )
            yield replace(case, steps=tuple(steps), split_counts={**case.split_counts, source: 1})


def _join(event: BoundEvent, source: str) -> BoundEvent:
    """Return the rows of an event in one split."""
    if not isinstance(event, FedRows) or event.source != source:
        return event
    return FedRows(source, (tuple(row for rows in event.splits for row in rows),))


def _replace_step(case: RandomCase, at: int, step: CaseStep) -> RandomCase:
    return replace(case, steps=(*case.steps[:at], step, *case.steps[at + 1 :]))
