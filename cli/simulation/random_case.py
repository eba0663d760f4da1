"""Random cases: rows of all sources, and what happens to the job between and while they are read.

The result of a case must not depend on how it is run. So a row is late in each run or in none:
rows within the watermark's delay never are, and rows behind the watermark come after a watermark
of all sources and a checkpoint. A split ceases to be idle before a checkpoint, and while others
have no rows: else those could be ahead of it. If all splits of a source are idle, its next rows are
of one split, for the same reason. Time passes between two checkpoints, so that rows that are read
again are read at the same time. The rows of a key come in one split. Where a change may be late,
each row comes by itself, before a checkpoint.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import timedelta
from typing import Literal, TypeAlias

from headrace.core.expressions import find_columns
from headrace.core.expressions.typed import ColumnReference
from headrace.core.pipeline.pipeline_tests.model import ClockAdvance, ControlEvent, Rescale
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Session
from headrace.core.testing.bound_tests import BoundEvent, FedIdleness, FedRows, FedWatermark
from headrace.core.testing.random_rows import NO_SAMPLES, SECOND_US, RowGenerator, RowSamples
from headrace.core.testing.typed_rows import Row
from headrace.core.types.lazy_dataclass import dataclass

BEGIN_US = 1_767_225_600 * SECOND_US
"""The event time at which cases begin: 2026-01-01."""
PACES_US = tuple(int(SECOND_US * s) for s in (0.1, 1, 1, 10, 10, 60, 60, 600, 3600))
"""The possible lengths of event time that the rows of an event cover."""
FAULTS = 0.25
"""The share of events in which there is a fault."""
MOST_EVENTS = 20
MOST_ROWS = 25
"""The largest number of rows of an event."""

DISTURBANCES = (
    ControlEvent("checkpoint"),
    ControlEvent("restart"),
    ControlEvent("savepoint"),
)
"""The events without a part in the result, besides a change of parallelism."""

FaultPlace: TypeAlias = Literal["turn", "write", "prepare", "commit"]
FAULT_PLACES: tuple[FaultPlace, ...] = ("turn", "turn", "write", "prepare", "commit")


@dataclass(frozen=True, slots=True)
class Fault:
    """A crash while an event is handled: in that turn of the loop, or that call of a sink."""

    at: FaultPlace
    number: int


@dataclass(frozen=True, slots=True)
class CaseStep:
    """Events that belong together; `fault` occurs in the only one."""

    events: tuple[BoundEvent, ...]
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class RandomCase:
    """The events of a case in order, and how its disturbed run begins."""

    seed: int
    parallelism: int
    split_counts: Mapping[str, int]
    tables: Mapping[str, tuple[Row, ...]]
    steps: tuple[CaseStep, ...]

    @property
    def events(self) -> Iterator[BoundEvent]:
        """All events."""
        return (event for step in self.steps for event in step.events)

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return sum(len(s) for e in self.events if isinstance(e, FedRows) for s in e.splits)


@dataclass(slots=True)
class CaseGenerator:
    """Draws a case from a seed. Raises NoEventTime."""

    plan: nodes.Plan
    seed: int
    samples: Mapping[str, RowSamples]
    tables: Mapping[str, tuple[Row, ...]]
    most_rows: int
    _chance: random.Random = field(init=False)
    _rows: dict[str, RowGenerator] = field(init=False)
    _splits: dict[str, int] = field(init=False)
    _split_keys: dict[str, tuple[str, ...] | None] = field(init=False)
    _pace_us: int = field(init=False)
    _now_us: int = field(init=False, default=BEGIN_US)
    """The latest event time so far."""
    _least_us: int = field(init=False, default=BEGIN_US)
    """No row that is not late has an earlier event time."""
    _idle: dict[str, set[int]] = field(init=False, default_factory=dict)
    """The splits of each source that are idle now, or may be."""
    _row_count: int = field(init=False, default=0)
    _may_find_changes_late: bool = field(init=False)

    def __post_init__(self) -> None:
        chance = self._chance = random.Random(self.seed)
        sources = [part for part in self.plan if isinstance(part, nodes.Source)]
        self._rows = {
            s.name: RowGenerator(s, chance, self.samples.get(s.name, NO_SAMPLES)) for s in sources
        }
        self._split_keys = {s.name: find_split_key(self.plan, s) for s in sources}
        self._splits = {
            s.name: 1 if self._split_keys[s.name] is None else chance.choice((1, 1, 2, 3))
            for s in sources
        }
        self._pace_us = chance.choice(PACES_US)
        self._may_find_changes_late = may_find_changes_late(self.plan)

    def draw(self) -> RandomCase:
        """Return the case."""
        most = min(4, self.plan.key_groups)
        parallelism = self._chance.randint(1, most)
        count = self._chance.randint(3, MOST_EVENTS) * (3 if self._may_find_changes_late else 1)
        steps = [step for _ in range(count) for step in self._draw_steps(most)]
        if self._chance.random() < 0.5:
            steps += [
                CaseStep((ControlEvent("checkpoint"),)),
                CaseStep((ControlEvent("end"),), self._draw_fault()),
            ]
        else:
            steps.append(CaseStep((ControlEvent("end"),)))
        return RandomCase(self.seed, parallelism, self._splits, self.tables, tuple(steps))

    def _draw_steps(self, most_parallelism: int) -> Iterator[CaseStep]:
        draws: dict[str, tuple[int, Callable[[], CaseStep | None]]] = {
            "rows": (12, self._draw_rows),
            "watermark": (2, self._raise_watermark),
            "late": (1, self._draw_late_rows),
            "idle": (1, self._make_splits_idle),
            "advance": (1, self._advance),
            "checkpoint": (4, lambda: CaseStep((ControlEvent("checkpoint"),))),
            "restart": (2, lambda: CaseStep((ControlEvent("restart"),))),
            "savepoint": (1, lambda: CaseStep((ControlEvent("savepoint"),))),
            "rescale": (1, lambda: CaseStep((Rescale(chance.randint(1, most_parallelism)),))),
        }
        chance, weights = self._chance, [weight for weight, _ in draws.values()]
        _, draw = chance.choices(tuple(draws.values()), weights)[0]
        step = draw()
        if step is None:
            return
        can_fail = len(step.events) == 1 and step.events[0] != ControlEvent("restart")
        if can_fail and chance.random() < FAULTS:
            step = replace(step, fault=self._draw_fault())
        yield step
        if self._may_find_changes_late and any(isinstance(e, FedRows) for e in step.events):
            yield CaseStep((ControlEvent("checkpoint"),))

    def _draw_fault(self) -> Fault:
        at = self._chance.choice(FAULT_PLACES)
        number = (
            int(2 ** self._chance.uniform(0, 8)) if at == "turn" else self._chance.randint(1, 3)
        )
        return Fault(at, number)

    def _draw_rows(self) -> CaseStep | None:
        """Return rows of a source: none is late."""
        chance = self._chance
        most = 1 if self._may_find_changes_late else MOST_ROWS
        count = min(chance.randint(1, most), self.most_rows - self._row_count)
        if count <= 0:
            return None
        source = chance.choice(tuple(self._rows))
        delay_us = self._get_delay_us(source)
        least_us = max(self._least_us, self._now_us - delay_us)
        latest_us = max(self._now_us, least_us) + self._pace_us
        times = [chance.randint(least_us, latest_us) for _ in range(count)]
        times.sort(key=lambda time_us: time_us + chance.random() * delay_us)
        self._now_us = max(self._now_us, *times)
        step = self._feed(source, times, least_us)
        if self._rows[source].source.event_time is not None:
            self._least_us = max(self._least_us, max(times) - delay_us)
        return step

    def _feed(self, source: str, times: Iterable[int], least_us: int) -> CaseStep:
        """Return rows in their splits; those of idle splits come before, each by themselves."""
        splits: list[list[Row]] = [[] for _ in range(self._splits[source])]
        for time_us in times:
            row = self._rows[source].draw(time_us, least_us)
            splits[self._choose_split(source, row)].append(row)
        idle = self._idle.get(source, set())
        if len(idle) == len(splits):
            # The first split with rows would leave behind those of all others.
            first = next(at for at, rows in enumerate(splits) if rows)
            splits = [rows if at == first else [] for at, rows in enumerate(splits)]
        self._row_count += sum(map(len, splits))
        resumed = [at for at, rows in enumerate(splits) if rows and at in idle]
        if not resumed:
            return CaseStep((FedRows(source, tuple(map(tuple, splits))),))
        idle.difference_update(resumed)
        events: list[BoundEvent] = []
        for at in resumed:
            alone = (tuple(rows) if each == at else () for each, rows in enumerate(splits))
            events += (FedRows(source, tuple(alone)), ControlEvent("checkpoint"))
        others = [() if at in resumed else tuple(rows) for at, rows in enumerate(splits)]
        if any(others):
            events.append(FedRows(source, tuple(others)))
        return CaseStep(tuple(events))

    def _choose_split(self, source: str, row: Row) -> int:
        key = [row[name] for name in self._split_keys[source] or ()]
        drawn = random.Random(f"{self.seed} {key}") if key else self._chance
        return drawn.randrange(self._splits[source])

    def _get_delay_us(self, source: str) -> int:
        watermark = self._rows[source].source.watermark
        return watermark.delay // timedelta(microseconds=1) if watermark is not None else 0

    def _raise_watermark(self) -> CaseStep | None:
        """Return the watermark of one source, or of all."""
        timed = self._list_timed_sources()
        if not timed:
            return None
        self._least_us = self._chance.randint(self._least_us, self._now_us)
        if any(self._idle.values()) or self._chance.random() < 0.5:
            return CaseStep(self._raise_watermarks())
        return CaseStep((FedWatermark(self._chance.choice(timed), self._least_us),))

    def _raise_watermarks(self) -> tuple[BoundEvent, ...]:
        """Return the watermark of all sources; no split is idle any longer."""
        self._idle.clear()
        watermarks = (FedWatermark(name, self._least_us) for name in self._list_timed_sources())
        return (*watermarks, ControlEvent("checkpoint"))

    def _advance(self) -> CaseStep:
        """Return that time passes; splits that may become idle by that are idle afterwards."""
        by = timedelta(seconds=self._chance.choice((1, 30, 300, 7200)))
        checkpoint = ControlEvent("checkpoint")
        by_clock = [
            name
            for name, rows in self._rows.items()
            if rows.source.watermark is not None and rows.source.watermark.idle is not None
        ]
        idle = [
            FedIdleness(name, self._set_idle(name, range(self._splits[name]))) for name in by_clock
        ]
        return CaseStep((checkpoint, ClockAdvance(by), *idle, checkpoint))

    def _draw_late_rows(self) -> CaseStep | None:
        """Return rows behind the watermark of all sources."""
        timed = self._list_timed_sources()
        rows = {name: self._rows[name].source for name in timed}
        can_be_late = [name for name, source in rows.items() if source.table is None]
        has_own_watermark = any(s.watermark_column or _has_user_watermark(s) for s in rows.values())
        if not can_be_late or has_own_watermark or self._row_count >= self.most_rows:
            return None
        watermarks = self._raise_watermarks()
        source, count = self._chance.choice(can_be_late), self._chance.randint(1, 3)
        if self._may_find_changes_late or has_unordered_sessions(self.plan):
            # Which of several rows comes first decides whether they are late.
            count = 1
        behind_us = self._chance.choice((1, 2, 20)) * self._pace_us
        times = [self._least_us - self._chance.randint(1, behind_us) for _ in range(count)]
        late = self._feed(source, times, self._least_us)
        return CaseStep((*watermarks, *late.events))

    def _make_splits_idle(self) -> CaseStep | None:
        """Return the idleness of some of the splits of a source, or of all."""
        timed = self._list_timed_sources()
        if not timed:
            return None
        source, chance = self._chance.choice(timed), self._chance
        count = self._splits[source]
        splits = sorted(
            self._idle.get(source) or chance.sample(range(count), chance.randint(1, count))
        )
        return CaseStep((FedIdleness(source, self._set_idle(source, splits)),))

    def _set_idle(self, source: str, splits: Iterable[int]) -> tuple[int, ...]:
        """Record that splits are idle, and return them."""
        idle = tuple(splits)
        self._idle.setdefault(source, set()).update(idle)
        return idle

    def _list_timed_sources(self) -> list[str]:
        return [name for name, rows in self._rows.items() if rows.source.event_time is not None]


def _has_user_watermark(source: nodes.Source) -> bool:
    return source.watermark is not None and source.watermark.python is not None


def replace_faults(case: RandomCase, *, are_before: bool = False) -> RandomCase:
    """Return a case with a restart in place of each fault: before or after its event."""
    steps = list[CaseStep]()
    for step in case.steps:
        restart = [CaseStep((ControlEvent("restart"),))] if step.fault is not None else []
        is_first = are_before or step.events[-1] == ControlEvent("end")
        whole = [CaseStep(step.events)]
        steps += [*restart, *whole] if is_first else [*whole, *restart]
    return replace(case, steps=tuple(steps))


def remove_disturbances(case: RandomCase) -> RandomCase:
    """Return a case with the events that have a part in its result only."""
    steps = (
        CaseStep(tuple(event for event in step.events if not is_disturbance(event)))
        for step in case.steps
    )
    return replace(case, steps=tuple(step for step in steps if step.events))


def is_disturbance(event: BoundEvent) -> bool:
    """Whether an event has no part in the result."""
    return event in DISTURBANCES or isinstance(event, Rescale)


def may_find_changes_late(plan: nodes.Plan) -> bool:
    """Whether the removal of a row, which has the time of the row, may come too late for a step.

    How many rows are read at a time decides that, because the watermark follows them.
    """
    return any(
        getattr(getattr(operation, "matching", operation), limit, None) is not None
        for part in plan
        if isinstance(part, nodes.Step)
        and any(not isinstance(plan.streams[name].kind, nodes.Append) for name in part.inputs)
        for operation in part.operations
        for limit in ("window", "ttl", "ttl_us")
    )


def has_unordered_sessions(plan: nodes.Plan) -> bool:
    """Whether a step has sessions, and the rows of its keys may come in another order than read.

    That is so after a step with a key, and where several streams meet.
    """
    in_order = {part.name for part in plan if isinstance(part, nodes.Source)}
    for part in plan:
        if not isinstance(part, nodes.Step):
            continue
        is_ordered = len(part.inputs) == 1 and part.inputs[0] in in_order
        for operation in part.operations:
            window = getattr(getattr(operation, "matching", operation), "window", None)
            if window is not None and isinstance(window.shape, Session) and not is_ordered:
                return True
            is_ordered = is_ordered and not isinstance(operation, nodes.KeyedOperation)
        if is_ordered:
            in_order |= {each.name for each in part.outputs}
    return False


def find_split_key(plan: nodes.Plan, source: nodes.Source) -> tuple[str, ...] | None:
    """Return columns by which rows are divided among splits, such that those of a key are together.

    An empty key: rows may be in any split. None: there is no such key, and so only one split.
    """
    if source.table is not None:
        return source.table.key
    keys = [key for key, read in _list_keys(plan) if read <= {*source.schema.names}]
    if not keys:
        return ()
    return tuple(sorted(frozenset.intersection(*keys))) or None


def _list_keys(plan: nodes.Plan) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Yield the columns in each key of the plan, and all those that it is computed from.

    Rows with different values of the others may have the same key, as those of v in `v % 2`.
    """
    for part in plan:
        for operation in part.operations if isinstance(part, nodes.Step) else ():
            key = getattr(operation, "key", None)
            keys = getattr(operation, "keys", ()) if key is None else (key,)
            for each in keys:
                values = [column.value for column in each]
                plain = (value.name for value in values if isinstance(value, ColumnReference))
                yield frozenset(plain), frozenset().union(*map(find_columns, values))
