"""Connection of control to a job of `headrace run`."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from headrace.cli.control.api import build_routes
from headrace.cli.control.job_control import JobControl
from headrace.cli.control.job_summary import JobSummary
from headrace.cli.control.rescale_plans import RescalePlans
from headrace.cli.control.savepoint_export import ByteProgress, SavepointProcess
from headrace.cli.errors import save_bug_report
from headrace.core.api.storage_url import is_url
from headrace.core.errors.resource_limits import find_shortage
from headrace.core.job.launch import LaunchOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.coordination.events import JobEvent
    from headrace.core.pipeline.loader import LoadedPipeline
    from headrace.state.storage.home import Home


def add_control(
    how: LaunchOptions,
    home: Home,
    loaded: LoadedPipeline,
    figures: JobSummary,
    report: Callable[[JobEvent], None],
) -> LaunchOptions:
    """Add the control of the job to its launch."""
    saving = SavepointProcess(partial(_export_savepoint, home, figures.description.version))
    control = JobControl(
        home.folder,
        figures,
        RescalePlans(loaded),
        saving,
        report,
        _report_bug,
        how.signals.end_at_once,
        build_routes,
    )
    return replace(how, watchers=(*how.watchers, control.watch), on_ended=control.finish_operations)


def _export_savepoint(
    home: Home, version: str, number: int, to: str | None, report: ByteProgress
) -> str:
    from headrace.cli.control.savepoint_export import export_savepoint

    where = export_savepoint(home, version, number, to, report)
    return where if is_url(where) else os.path.abspath(where)


def _report_bug(error: BaseException) -> None:
    """Report a bug in headrace; the job continues."""
    import traceback

    if shortage := find_shortage(error):
        click.echo(f"control failed: {shortage.message}; {shortage.hint}", err=True)
        return
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    click.echo(save_bug_report(what, "".join(traceback.format_exception(error))), err=True)
