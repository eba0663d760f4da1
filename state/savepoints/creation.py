"""Creation of a savepoint from a checkpoint in a home, whether its job runs or not.

No lock is needed. The caller ensures that a running job does not remove the checkpoint meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from headrace.core.api.snapshots import SnapshotError, format_now
from headrace.core.api.storage_url import is_url
from headrace.state.savepoints import names
from headrace.state.savepoints.export import ReportProgress, export_checkpoint
from headrace.state.savepoints.location import check_outside_homes
from headrace.state.savepoints.snapshot_lookup import open_checkpoint
from headrace.state.savepoints.writer import find_free_name, write_savepoint
from headrace.state.storage.home import Home


def take_savepoint(
    home: Home,
    version: str,
    number: int | None = None,
    to: str | None = None,
    report: ReportProgress = lambda done, of: None,
    time: Callable[[], str] = format_now,
) -> str:
    """Write a checkpoint (None: the newest) as a savepoint; returns its folder, which is complete.

    `to` must not exist or must be empty; None: a folder among the job's savepoints, named by the
    time. `version` is that of headrace. `report` is called now and then with the bytes done and the
    total bytes, and may raise to end the export. An unfinished savepoint is removed. If `to` is a
    bucket's address, the savepoint is written among the job's savepoints first, and then uploaded.
    Raises SnapshotError.
    """
    if to is not None:
        check_outside_homes(to, home)
    if to is not None and is_url(to):
        return _take_to_bucket(home, version, number, to, report, time)
    at = time()
    folder = to or find_free_name(
        home.disk, os.path.join(names.get_job_folder(home.root, home.name), names.build_name(at))
    )
    origin = {"taken": at, "taken_by": version}
    scratch = os.path.join(names.get_unfinished_folder(folder), names.SCRATCH)
    with (
        open_checkpoint(home, number, scratch) as snapshot,
        write_savepoint(home.disk, folder) as to_write,
    ):
        document = export_checkpoint(
            snapshot.document, snapshot.store, snapshot.backend, to_write, origin, report
        )
        home.disk.remove_folder(scratch)
        to_write.finish(document)
    return folder


def _take_to_bucket(
    home: Home,
    version: str,
    number: int | None,
    to: str,
    report: ReportProgress,
    time: Callable[[], str],
) -> str:
    """Write the savepoint to a folder, upload it to a bucket, and remove the folder."""
    from headrace.state.savepoints.upload import check_empty, upload_savepoint
    from headrace.state.storage.remote.bucket import open_bucket
    from headrace.state.storage.remote.bucket_disk import resolve_storage_url

    last = (0, 0)

    def report_bytes(done: int, of: int) -> None:
        nonlocal last
        last = (done, of)
        report(done, of)

    address = resolve_storage_url(to)
    objects = open_bucket(address)
    check_empty(objects)
    folder = take_savepoint(home, version, number, None, report_bytes, time)
    try:
        upload_savepoint(folder, objects, lambda: report(*last))
    except SnapshotError as error:
        error.hint = f"it is complete in {folder}, and may be copied there by any other means"
        raise
    except BaseException:
        home.disk.remove_folder(folder)
        raise
    home.disk.remove_folder(folder)
    return str(address)
