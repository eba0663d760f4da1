"""Restoring a job at its start: opens its home, and finds the checkpoint to resume from.

Events are passed to the report; a snapshot that cannot be resumed raises SnapshotError.
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
    """The starting point requested of `run`; by default the newest checkpoint."""

    root: str
    fresh: bool = False
    number: int | None = None
    anew: frozenset[str] = frozenset()
    """The steps and sources whose state or positions are dropped."""
    lose: bool = False
    """Whether state that a changed pipeline no longer uses may be dropped."""
    drained: bool = False
    """Whether to resume a job that was drained."""
    savepoint: str | None = None
    """The folder of a savepoint; then `number` is None."""
    take_over: bool = False
    """Whether the user knows that no run of another home writes to the same bucket any more."""


@dataclass(frozen=True, slots=True)
class Resuming:
    """A job whose home is locked by this process, ready to run."""

    home: Home
    cabinet: Cabinet
    job: str
    keeping: Keeping
    restored: Checkpoint | None

    def over(self) -> None:
        """Clear the marks of a finished job, once its end has been reported."""
        self.cabinet.clear()


@contextmanager
def resuming(
    plan: Plan,
    settings: Settings,
    start: Start,
    tell: Callable[[News], None],
    look: Callable[[], None],
) -> Iterator[Resuming | None]:
    """Lock the home, and find the checkpoint to resume from; None: the job had finished.

    `look` raises the errors for which a new job is rejected, before anything is removed.
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
            # The previous run was killed after the job's end, before that was reported.
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
            if not restored.ended:  # else nothing is left to read
                tell(replace(resumed, killed=str(killed) if killed else None))
        yield Resuming(home, cabinet, job, keeping, restored)


@contextmanager
def _opened(
    home: Home, settings: Settings, start: Start, killed: Holder | None
) -> Iterator[tuple[Cabinet, str, Holder | None]]:
    """Open the checkpoints of a locked home: the repository, the home's id, and a killed holder."""
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
    """Return the current time in the format of manifests."""
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
    """Return the checkpoint to resume from, if there is one."""
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
    """Return the checkpoints newer than the requested one, after verifying that it is complete.

    Also return how many rows sinks have written after it, as far as the newest checkpoint knows.
    """
    newer = tuple(each for each in store.manifests() if each > number)
    if newer:
        store.verify(number)
    return newer, _again(store, newer, store.manifest(number), plan)


def _again(
    store: JobStore, newer: Sequence[int], document: Manifest, plan: Plan
) -> tuple[tuple[str, int], ...]:
    """Return how many rows each sink has written after this manifest, as far as is known."""
    from headrace.core.manifest import rows_written

    if newer:
        with suppress(SnapshotError):
            before = rows_written(document, plan)
            rows = rows_written(store.manifest(newer[-1]), plan).items()
            return tuple((sink, n - before[sink]) for sink, n in rows if n > before[sink])
    return ()


def _remove(store: SnapshotStore, numbers: Sequence[int]) -> None:
    """Remove newer checkpoints, once the job has resumed from an older one."""
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
    """Restore a checkpoint, if the pipeline is compatible with it; also return what to report."""
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
