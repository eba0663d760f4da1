"""The home of a job that is about to run: whether it goes on, from what, and what keeps it.

What it says is said by the report; what refuses to go on is raised as SnapshotError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from headrace.cli.reached import reached
from headrace.cli.saved import Saved, adopted, fitting
from headrace.core.news import News, Resumed
from headrace.core.snapshots import RefusedSnapshot, SnapshotError
from headrace.state.storage.elsewhere import home_id, leave, settled
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

if TYPE_CHECKING:
    from headrace.core.checkpoints import Rhythm
    from headrace.core.keeping import Keeping
    from headrace.core.manifest import Checkpoint
    from headrace.core.pipeline.settings import Settings
    from headrace.core.plan import Plan
    from headrace.core.snapshots import Manifest, SnapshotStore
    from headrace.state.storage.cabinet import Cabinet, JobStore
    from headrace.state.storage.lock import Holder


@dataclass(frozen=True, slots=True)
class Start:
    """What `run` was asked to begin with; None: the newest checkpoint there is."""

    root: str
    fresh: bool = False
    number: int | None = None
    anew: frozenset[str] = frozenset()
    """The steps and sources that are to forget what is kept of them."""
    lose: bool = False
    """Whether what a changed pipeline does not go on with may go."""
    drained: bool = False
    """Whether to go on behind the end of a job that was drained."""
    savepoint: str | None = None
    """The folder of one; then `number` is None."""
    take_over: bool = False
    """Whether a run of another home that writes to the same bucket is known to be gone."""


@dataclass(frozen=True, slots=True)
class Resuming:
    """A job in a home that is held."""

    home: Home
    cabinet: Cabinet
    job: str
    keeping: Keeping
    restored: Checkpoint | None

    def over(self) -> None:
        """All has been said of a job that has come to its end."""
        self.cabinet.clear()


@contextmanager
def resuming(
    plan: Plan,
    settings: Settings,
    start: Start,
    tell: Callable[[News], None],
    look: Callable[[], None],
) -> Iterator[Resuming | None]:
    """Hold the home, and find what to go on from; None: the job had come to its end.

    `look` raises what a new job would be refused for: before anything is forgotten.
    """
    home = Home(LocalDisk(), start.root, str(plan.name))
    saved = None if start.savepoint is None else fitting(start.savepoint, plan, start)
    with home.held(now()) as held, _opened(home, settings, start, held) as (cabinet, id, killed):
        if saved is not None:
            saved = adopted(saved, cabinet, look)
        elif start.fresh:
            look()
            cabinet.forget()
            cabinet.clear()
        elif cabinet.finished() is not None:
            # Killed between its end and the last word about it.
            cabinet.forget()
            leave(home)
            cabinet.clear()
            yield None
            return
        settled(home, id, settings.checkpoint.dir)
        job = cabinet.job(now())
        store = cabinet.store(job)
        keeping = _keeping(home, cabinet, store, settings, tell)
        number = saved.number if saved else _number(store, start)
        restored = None
        if number is not None:
            restored, resumed = _restored(number, plan, start, store, keeping, saved)
            if not restored.ended:  # else nothing is read any more
                tell(replace(resumed, killed=str(killed) if killed else None))
        yield Resuming(home, cabinet, job, keeping, restored)


@contextmanager
def _opened(
    home: Home, settings: Settings, start: Start, killed: Holder | None
) -> Iterator[tuple[Cabinet, str, Holder | None]]:
    """Where the checkpoints of a home that is held are, its id, and who was killed before."""
    place = settings.checkpoint.dir
    is_anew = start.fresh or start.savepoint is not None
    identity = home_id(home, place, anew=is_anew)
    if place is None:
        yield home, identity, killed
        return
    from headrace.core.addresses import address
    from headrace.state.storage.remote.bucket import reached
    from headrace.state.storage.remote.cabinet import opened

    objects = reached(address(place).below(home.name))
    with opened(objects, home.name, identity, home.disk, now, take_over=start.take_over) as cabinet:
        yield cabinet, identity, killed or cabinet.killed


def now() -> str:
    """The time, as manifests tell it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _keeping(
    home: Home,
    cabinet: Cabinet,
    store: SnapshotStore,
    settings: Settings,
    tell: Callable[[News], None],
) -> Keeping:
    from headrace.cli.version import installed_version
    from headrace.core.keeping import Keeping
    from headrace.core.restart import Restarts

    checkpoint = settings.checkpoint

    def finish() -> None:
        cabinet.finish({"time": now()})
        cabinet.forget()
        leave(home)

    return Keeping(
        store,
        Restarts(settings.restart),
        _rhythm(settings),
        checkpoint.retain,
        checkpoint.mode == "aligned",
        installed_version(),
        now,
        tell,
        finish,
        cabinet.note,
        cabinet.noted,
        cabinet.notes,
        now_us=lambda: time_ns() // 1000,
    )


def _rhythm(settings: Settings) -> Rhythm:
    from headrace.core.checkpoints import Rhythm

    checkpoint = settings.checkpoint
    return Rhythm(
        checkpoint.every.total_seconds() if checkpoint.every else None,
        checkpoint.min_pause.total_seconds(),
        checkpoint.timeout.total_seconds(),
        checkpoint.tolerable_failures,
    )


def _number(store: SnapshotStore, start: Start) -> int | None:
    """The checkpoint to go on from, if there is one."""
    numbers = store.manifests()
    if start.number is None:
        return max(numbers, default=None)
    if start.number not in numbers:
        there = ", ".join(map(str, numbers)) or "none"
        raise RefusedSnapshot(f"there is no checkpoint {start.number}", f"there are: {there}")
    return start.number


def _go_back(
    store: JobStore, number: int, plan: Plan
) -> tuple[tuple[int, ...], tuple[tuple[str, int], ...]]:
    """The checkpoints that are newer than the one that was asked for, if that is whole.

    And how many rows sinks have written behind it, as far as the newest can tell.
    """
    newer = tuple(each for each in store.manifests() if each > number)
    if newer:
        store.verify(number)
    return newer, _again(store, newer, store.manifest(number), plan)


def _again(
    store: JobStore, newer: Sequence[int], document: Manifest, plan: Plan
) -> tuple[tuple[str, int], ...]:
    """How many rows sinks have written behind what a document says, as far as that can be told."""
    from headrace.core.manifest import rows_written

    if newer:
        with suppress(SnapshotError):
            before = rows_written(document, plan)
            rows = rows_written(store.manifest(newer[-1]), plan).items()
            return tuple((sink, n - before[sink]) for sink, n in rows if n > before[sink])
    return ()


def _remove(store: SnapshotStore, numbers: Sequence[int]) -> None:
    """When the job has begun to go on from an older one, and nothing is refused any more."""
    for number in reversed(numbers):
        store.discard(number)


def _restored(
    number: int,
    plan: Plan,
    start: Start,
    store: JobStore,
    keeping: Keeping,
    saved: Saved | None,
) -> tuple[Checkpoint, Resumed]:
    """The checkpoint of that number, if the pipeline can go on from it; and what to tell of it."""
    from headrace.core import manifest
    from headrace.core.fitting import Wishes, check_fits

    document = keeping.document(number)
    changes = check_fits(number, document, plan, Wishes(start.anew, start.lose, start.drained))
    if saved is None:
        removed, again = _go_back(store, number, plan)
    else:
        removed = saved.newer(store)
        again = _again(store, removed, document, plan)
    keeping.resumed, keeping.anew = number, start.anew
    keeping.begun = partial(_remove, store, removed)
    restored = manifest.read(number, document, plan, start.anew)
    sources = tuple(
        (name, reached([(s.name, p.position, p.ended) for s, p in splits.items()]))
        for name, splits in restored.begins.splits.items()
    )
    resumed = Resumed(
        number, restored.taken_at, sources, changes=changes, removed=removed, again=again
    )
    if saved is not None:
        folder = saved.savepoint.folder
        resumed = replace(resumed, savepoint=folder, forgotten=saved.forgotten)
    return restored, resumed
