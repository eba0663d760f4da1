"""Restoring a job at its start: opens its home, and finds the checkpoint to resume from.

Events are passed to the report; a snapshot that cannot be resumed raises SnapshotError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from headrace.cli.formatting import describe_progress
from headrace.cli.run_text import format_killed
from headrace.cli.savepoint_restore import RestoredSavepoint, adopt_savepoint, open_compatible
from headrace.core.api.snapshots import (
    DamagedSnapshot,
    RefusedSnapshot,
    SnapshotError,
    format_now,
)
from headrace.core.coordination.events import ExternalWarning, JobEvent, JobResumed
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.savepoints.names import get_job_folder
from headrace.state.storage.checkpoint_location import (
    clear_location,
    record_location,
    resolve_home_id,
)
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.store import FRESH_HINT

if TYPE_CHECKING:
    from headrace.cli.run_options import RunOptions
    from headrace.core.api.snapshots import Manifest, SnapshotStore
    from headrace.core.checkpoint.compatibility import RestoreOptions
    from headrace.core.checkpoint.manifest import RestoredCheckpoint
    from headrace.core.checkpoint.storage import CheckpointStorage
    from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
    from headrace.core.pipeline.settings import Settings
    from headrace.core.plan.nodes import Plan
    from headrace.state.storage.checkpoint_repository import CheckpointRepository, JobSnapshotStore
    from headrace.state.storage.home_lock import LockHolder


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job whose home is locked by this process, ready to run."""

    home: Home
    repository: CheckpointRepository
    job: str
    storage: CheckpointStorage
    restored_checkpoint: RestoredCheckpoint | None

    def finish(self) -> None:
        """Clear the marks of a finished job, once its end has been reported."""
        self.repository.clear_finished()


@contextmanager
def prepare_job(
    plan: Plan,
    settings: Settings,
    options: RunOptions,
    report: Callable[[JobEvent], None],
    check: Callable[[], None],
) -> Iterator[PreparedJob | None]:
    """Lock the home, and find the checkpoint to resume from; None: the job had finished.

    `check` raises the errors for which a new job is rejected, before anything is removed.
    """
    home = Home(LocalDisk(), options.home, str(plan.name))
    path = options.from_savepoint
    saved = None if path is None else open_compatible(path, plan, options.restore)
    with (
        _hold_home(home, report) as hold,
        _open_repository(home, settings, options, hold) as (repository, id, killed),
    ):
        if saved is not None:
            saved = adopt_savepoint(saved, repository, check)
        elif options.fresh:
            check()
            repository.delete_job()
            repository.clear_finished()
        elif _remove_finished_job(home, repository):
            yield None
            return
        record_location(home, id, settings.checkpoint.dir)
        job = repository.ensure_job_id(format_now())
        store = repository.open_store(job)
        storage = _build_storage(home, repository, store, settings, report)
        number = _find_start(saved, options.from_checkpoint, repository, store, storage)
        restored = None
        if number is not None:
            restored, resumed = _restore_checkpoint(
                number, plan, options.restore, store, storage, saved
            )
            if not restored.is_final:  # else nothing is left to read
                report(replace(resumed, killed_process=str(killed) if killed else None))
        elif killed is not None and not options.fresh:
            report(ExternalWarning(f"{format_killed(str(killed))}; it had taken no checkpoint"))
        yield PreparedJob(home, repository, job, storage, restored)


def _remove_finished_job(home: Home, repository: CheckpointRepository) -> bool:
    """Remove a job whose run was killed after the job's end; return whether there was one."""
    if repository.read_finished() is None:
        return False
    repository.delete_job()
    clear_location(home)
    repository.clear_finished()
    return True


@contextmanager
def _hold_home(home: Home, report: Callable[[JobEvent], None]) -> Iterator[LockHolder | None]:
    """Lock a home whose files only its owner may access; yields a killed holder."""
    with home.hold(format_now()) as killed:
        for folder in (home.folder, get_job_folder(home.root, home.name)):
            if line := home.disk.restrict_access(folder):
                report(ExternalWarning(line))
        yield killed


@contextmanager
def _open_repository(
    home: Home, settings: Settings, options: RunOptions, killed: LockHolder | None
) -> Iterator[tuple[CheckpointRepository, str, LockHolder | None]]:
    """Open the checkpoints of a locked home: the repository, the home's id, and a killed holder."""
    place = settings.checkpoint.dir
    is_fresh = options.fresh or options.from_savepoint is not None
    identity = resolve_home_id(home, place, fresh=is_fresh)
    if place is None:
        yield home, identity, killed
        return
    from headrace.core.api.storage_url import parse_storage_url
    from headrace.state.storage.remote.bucket import open_reachable_bucket
    from headrace.state.storage.remote.checkpoint_repository import own_checkpoints

    objects = open_reachable_bucket(parse_storage_url(place).child(home.name))
    with own_checkpoints(
        objects, home.name, identity, home.disk, format_now, take_over=options.take_over
    ) as repository:
        yield repository, identity, killed or repository.previous_owner


def _build_storage(
    home: Home,
    repository: CheckpointRepository,
    store: SnapshotStore,
    settings: Settings,
    report: Callable[[JobEvent], None],
) -> CheckpointStorage:
    from headrace.cli.command_group import find_installed_version
    from headrace.core.checkpoint.storage import CheckpointStorage
    from headrace.core.coordination.restart import RestartPolicy

    checkpoint = settings.checkpoint

    def finish() -> None:
        repository.mark_finished({"time": format_now()})
        repository.delete_job()
        clear_location(home)

    return CheckpointStorage(
        store,
        RestartPolicy(settings.restart),
        _build_schedule(settings),
        checkpoint.retain,
        checkpoint.mode == "aligned",
        find_installed_version(),
        format_now,
        report,
        finish,
        repository.write_commit_record,
        repository.read_commit_record,
        repository.write_completion_record,
        repository.read_completion_record,
        repository.notes,
        now_us=lambda: time_ns() // 1000,
    )


def _build_schedule(settings: Settings) -> CheckpointSchedule:
    from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule

    checkpoint = settings.checkpoint
    return CheckpointSchedule(
        checkpoint.every.total_seconds() if checkpoint.every else None,
        checkpoint.min_pause.total_seconds(),
        checkpoint.timeout.total_seconds(),
        checkpoint.tolerable_failures,
    )


def _find_start(
    saved: RestoredSavepoint | None,
    requested: int | None,
    repository: CheckpointRepository,
    store: JobSnapshotStore,
    storage: CheckpointStorage,
) -> int | None:
    """Return the checkpoint to resume from: the requested or the newest one, None without one."""
    if saved is None and requested is None:
        return _find_newest(repository, store, storage)
    numbers = store.list_checkpoints()
    number = saved.number if saved else requested
    if number not in numbers:
        there = f"the checkpoints are {', '.join(map(str, numbers))}"
        hint = there if numbers else "the home has no checkpoints"
        raise RefusedSnapshot(f"there is no checkpoint {number}", hint)
    try:
        storage.read_completion()
    except RefusedSnapshot:
        # The user has chosen where to start, whatever the lost record said.
        storage.replace_lost_completion()
    return number


def _find_newest(
    repository: CheckpointRepository, store: JobSnapshotStore, storage: CheckpointStorage
) -> int | None:
    """Return the newest checkpoint, None for a job without one.

    Raises RefusedSnapshot if it is gone: an older one would repeat output that is committed.
    """
    from headrace.core.checkpoint.completion_record import (
        CompletionRecord,
        count_repeated_rows,
        offer_ways_on,
    )

    def offer(record: CompletionRecord) -> str:
        whole = next((n for n in reversed(store.list_checkpoints()) if store.is_whole(n)), None)
        repeated = whole and count_repeated_rows(store.read_manifest(whole), record.rows)
        return offer_ways_on(record, whole, repeated or None)

    try:
        record = storage.read_completion()
    except DamagedSnapshot as error:
        why = "it says which checkpoint is the newest"
        raise DamagedSnapshot(
            f"{error.message}; {why}", offer(CompletionRecord()), file=error.file
        ) from error
    newest = record.find_newest(store.list_checkpoints())
    if newest < record.resume_floor:
        committed = repository.read_commit_record() or 0
        missing = record.describe_missing(storage.find_last_number(), committed)
        hint = (
            f"restore {store.get_manifest_path(record.resume_floor)} from a copy; {offer(record)}"
        )
        raise RefusedSnapshot(missing, hint)
    return newest or None


def _find_newer(
    store: JobSnapshotStore, storage: CheckpointStorage, number: int
) -> tuple[int, ...]:
    """Return the checkpoints newer than this one, after verifying it if there are any."""
    newer = tuple(each for each in store.list_checkpoints() if each > number)
    if newer or storage.read_completion().number > number:
        store.verify(number)
    return newer


def _count_rewritten_rows(
    store: JobSnapshotStore,
    storage: CheckpointStorage,
    newer: Sequence[int],
    document: Manifest,
    plan: Plan,
) -> tuple[tuple[str, int], ...]:
    """Return how many rows each sink has written after this manifest, as far as is known."""
    from headrace.core.checkpoint.completion_record import count_repeated_rows, count_sink_rows
    from headrace.core.plan import nodes

    rows = storage.read_completion().rows
    if newer:
        with suppress(SnapshotError):
            newest = count_sink_rows(store.read_manifest(newer[-1]))
            rows = {sink: max(count, rows.get(sink, 0)) for sink, count in newest.items()}
    sinks = {str(part.name) for part in plan if isinstance(part, nodes.Sink)}
    again = count_repeated_rows(document, rows).items()
    return tuple((sink, count) for sink, count in again if sink in sinks)


def _remove_checkpoints(store: SnapshotStore, numbers: Sequence[int]) -> None:
    """Remove the checkpoints between a savepoint and the checkpoint made of it."""
    for number in reversed(numbers):
        store.discard(number)


_OTHER_CHECKPOINT_HINT = (
    f"--from-checkpoint resumes from another one (headrace state ls JOB); {FRESH_HINT}"
)


def _restore_checkpoint(
    number: int,
    plan: Plan,
    options: RestoreOptions,
    store: JobSnapshotStore,
    storage: CheckpointStorage,
    saved: RestoredSavepoint | None,
) -> tuple[RestoredCheckpoint, JobResumed]:
    """Restore a checkpoint, if the pipeline is compatible with it; also return what to report."""
    from headrace.core.checkpoint.compatibility import check_compatibility

    document = storage.read_manifest(number)
    changes = check_compatibility(number, document, plan, options)
    restored = _parse_checkpoint(number, document, plan, options, store.get_manifest_path(number))
    removed: tuple[int, ...] = ()
    repeated_rows: tuple[tuple[str, int], ...] = ()
    if saved is None or saved.is_same_job:
        removed = (
            saved.find_newer_checkpoints(store) if saved else _find_newer(store, storage, number)
        )
        repeated_rows = _count_rewritten_rows(store, storage, removed, document, plan)
    storage.resumed_number, storage.fresh_parts = number, options.fresh_parts
    storage.on_deployed = (
        partial(storage.return_to, number)
        if saved is None
        else partial(_remove_checkpoints, store, removed)
    )
    resumed = JobResumed(
        number,
        restored.taken_at,
        _describe_sources(restored),
        changes=changes,
        removed_checkpoints=removed,
        repeated_rows=repeated_rows,
    )
    if saved is not None:
        folder = saved.savepoint.folder
        resumed = replace(resumed, savepoint=folder, dropped_checkpoints=saved.removed_checkpoints)
    return restored, resumed


def _parse_checkpoint(
    number: int, document: Manifest, plan: Plan, options: RestoreOptions, file: str
) -> RestoredCheckpoint:
    """Parse a manifest, and check what connectors have stored in it. Raises DamagedSnapshot."""
    from headrace.connectors.registry import REGISTRY
    from headrace.core.checkpoint.connector_documents import check_connector_documents
    from headrace.core.checkpoint.manifest import restore_checkpoint

    restored = restore_checkpoint(number, document, plan, options.fresh_parts)
    check_connector_documents(restored, plan, REGISTRY, file, _OTHER_CHECKPOINT_HINT)
    return restored


def _describe_sources(restored: RestoredCheckpoint) -> tuple[tuple[str, str], ...]:
    """Return the progress of each source."""
    return tuple(
        (name, describe_progress([(s.name, p.position, p.is_finished) for s, p in splits.items()]))
        for name, splits in restored.restored_state.splits.items()
    )
