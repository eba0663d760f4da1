"""The run of a query at the shell as tasks of this process (on Spark: `cli/batch/query_run`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import NoReturn

import click

from headrace.cli.errors import Refusal
from headrace.cli.shell_query.pipeline import ShellQuery
from headrace.connectors.standard_output import redirect_prints
from headrace.core.api.failures import ConnectorError, format_refusal
from headrace.core.api.splits import Failure
from headrace.core.api.user_code import UserCodeError
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.errors.interrupts import INTERRUPTED_STATUS
from headrace.core.job.launch import JobInterrupted, LaunchOptions, Watcher, launch_job
from headrace.core.job.signals import SignalHandler
from headrace.core.plan import nodes
from headrace.core.sources.chunk_rows import BAD_RECORD_HINT
from headrace.state.backends import open_backend


def run_tasks(
    planned: ShellQuery, signals: SignalHandler, watchers: Sequence[Watcher]
) -> dict[str, int]:
    """Run the query as tasks to its end; return the number of bad records of each source.

    Reports a failure, and ends the command with it.
    """
    settings = planned.pipeline.settings
    launch = LaunchOptions(
        planned.folder,
        bounds=_choose_bounds(planned),
        watchers=tuple(watchers),
        signals=signals,
    )
    on_disk = settings.state.backend != "memory"
    scratch: AbstractContextManager[str] = (
        TemporaryDirectory(prefix="headrace-") if on_disk else nullcontext("")
    )
    try:
        with scratch as folder, redirect_prints():
            backend = open_backend(settings.state, folder)
            outcome = launch_job(planned.plan, planned.connectors, backend, launch)
    except (ConnectorError, UserCodeError) as error:
        raise convert_refusal(error) from None
    except JobInterrupted:
        click.get_current_context().exit(INTERRUPTED_STATUS)
    if outcome.failure:
        end_with(planned, outcome.failure)
    return {name: counts.bad_rows for name, counts in outcome.part_counts.items()}


def _choose_bounds(planned: ShellQuery) -> ChannelBounds:
    """Return the bounds of channels; sources gather rows if a step reads changes.

    Such a step has work for each row that changes with a batch. Other steps have as much work for
    two batches as for one, and should begin with the first.
    """
    bounds = ChannelBounds.from_settings(planned.pipeline.settings)
    read = [name for part in planned.plan if isinstance(part, nodes.Step) for name in part.inputs]
    reads_changes = any(
        not isinstance(planned.plan.streams[name].kind, nodes.Append) for name in read
    )
    return bounds if reads_changes else replace(bounds, linger_s=0.0)


def convert_refusal(error: ConnectorError | UserCodeError) -> Refusal:
    """Return the refusal that ends the command."""
    if isinstance(error, ConnectorError):
        return Refusal(format_refusal(error), error.hint, error.exit_status)
    return Refusal(error.message, error.hint)


def end_with(planned: ShellQuery, failure: Failure) -> NoReturn:
    """Report a failure of the query, and end the command."""
    from headrace.cli.run_report import choose_report

    if failure.hint == BAD_RECORD_HINT and failure.step in planned.guessed:
        failure = replace(failure, hint="--skip-bad leaves such records out")
    choose_report("query", "text", quiet=True).report_failure(failure)
    click.get_current_context().exit(1)
