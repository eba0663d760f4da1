"""`headrace run`: runs a pipeline until it ends or a stop is requested."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from headrace.cli.batch.options import add_batch_options, check_options
from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import PipelineFile
from headrace.cli.pipeline_file import add_home_option, add_set_option, check_pipeline

if TYPE_CHECKING:
    from headrace.cli.pipeline_file import CheckedPipeline
    from headrace.cli.run_report import RunReport
    from headrace.cli.start_options import StartOptions
    from headrace.core.coordination.events import JobEvent
    from headrace.core.job.job import Job
    from headrace.core.job.launch import LaunchOptions, Watcher
    from headrace.core.job.signals import SignalHandler
    from headrace.core.pipeline.settings import Buffer, Settings
    from headrace.core.plan import Plan


@click.command()
@click.argument("pipeline", type=PipelineFile())
@add_set_option
@click.option("--parallelism", type=WholeNumber(1), help="Subtasks of each part.")
@click.option("--limit", type=WholeNumber(1), help="Read only this many rows of each source.")
@click.option("--fresh", is_flag=True, help="Start from scratch: remove the job's checkpoints.")
@click.option(
    "--from-checkpoint",
    type=WholeNumber(1),
    help="Resume from this checkpoint; newer ones are removed.",
)
@click.option(
    "--from-savepoint",
    metavar="PATH",
    help="Resume from this savepoint, whatever is in the home.",
)
@click.option(
    "--reset-state",
    metavar="STEP",
    multiple=True,
    help="Drop the state of this step, or the positions of this source; may be repeated.",
)
@click.option(
    "--allow-lost-state",
    is_flag=True,
    help="Drop stored state that the changed pipeline no longer uses.",
)
@click.option(
    "--resume-drained",
    is_flag=True,
    help="Resume after `stop --drain`: windows that fired then start empty for later rows.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Resume even though a run on another machine owns the bucket of the checkpoints; if it "
    "still runs, it stops at its next checkpoint.",
)
@add_home_option
@add_batch_options("Run once over all existing rows, on Spark.")
@click.option(
    "--http",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    help="Serve /metrics, /live and /ready on this port of 127.0.0.1; 0: on any free port.",
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json is for programs: one object per line, on standard error.",
)
@click.pass_context
def run(
    ctx: click.Context,
    pipeline: str,
    overrides: Sequence[str],
    parallelism: int | None,
    limit: int | None,
    fresh: bool,
    from_checkpoint: int | None,
    from_savepoint: str | None,
    reset_state: Sequence[str],
    allow_lost_state: bool,
    resume_drained: bool,
    take_over: bool,
    home: str,
    batch: bool,
    master: str | None,
    conf: Sequence[str],
    http: int | None,
    quiet: bool,
    log: str,
) -> None:
    """Run a pipeline.

    It ends when its sources end, or with a checkpoint at the first Ctrl-C or SIGTERM; the second
    Ctrl-C stops it at once. However it ends, the same command resumes from its newest checkpoint,
    and no row is lost or written twice. With --limit, or with standard input, which cannot be read
    again, it takes no checkpoints: the first Ctrl-C finishes the rows that were read.

    On a terminal a table shows what each part is doing; elsewhere a line is printed every ten
    seconds. Backpressure is the share of time that a part waits for its readers: ok up to 10 %,
    low up to 50 %, else high.

    With --batch the pipeline runs once over all existing rows, on Spark. The output has the same
    rows, and becomes visible when all are written. The first Ctrl-C stops it; nothing is written.
    """
    from headrace.core.job.signals import SignalHandler

    signals = ctx.ensure_object(ExitStack).enter_context(SignalHandler())
    check_options(ctx)
    _check_start_options(fresh, from_checkpoint, from_savepoint, ctx)
    if parallelism is not None:
        overrides = (*overrides, f"settings.parallelism={parallelism}")
    checked, report = _load_pipeline(pipeline, overrides, log, quiet=quiet)
    if checked.plan is None or not checked.is_valid:
        ctx.exit(2)
    if batch:
        from headrace.cli.batch.batch_run import BatchRun

        asked = BatchRun(checked, checked.plan, report, home, fresh=fresh)
        ctx.exit(asked.run(master, conf, signals))
    start = None
    if limit is None and _is_replayable(checked.plan):
        from headrace.cli.start_options import StartOptions

        _check_reset_state(checked.plan, reset_state, ctx)
        start = StartOptions(
            *(home, fresh, from_checkpoint, frozenset(reset_state), allow_lost_state),
            savepoint=from_savepoint,
            resume_drained=resume_drained,
            take_over=take_over,
        )
    elif any(
        [from_checkpoint, from_savepoint, reset_state, allow_lost_state, resume_drained, take_over]
    ):
        raise click.UsageError("a run with --limit or of standard input takes no checkpoints", ctx)
    how = _build_launch(
        checked.pipeline.settings.buffer, Path(pipeline).parent, limit, signals, report
    )
    if http is not None:
        how = _add_monitoring(how, http, report, ctx)
    ctx.exit(_run_plan(checked.plan, checked, how, report, start))


def _check_start_options(
    fresh: bool, checkpoint: int | None, savepoint: str | None, ctx: click.Context
) -> None:
    """Check that at most one starting point is given."""
    if fresh and checkpoint is not None:
        raise click.UsageError("--fresh removes what --from-checkpoint resumes from", ctx)
    if savepoint is not None and (fresh or checkpoint is not None):
        other = "--fresh" if fresh else "--from-checkpoint"
        message = f"wanted one starting point, got --from-savepoint and {other}"
        raise click.UsageError(message, ctx)


def _load_pipeline(
    pipeline: str, overrides: Sequence[str], log: str, *, quiet: bool
) -> tuple[CheckedPipeline, RunReport]:
    """Load the pipeline, and report its problems; also return the report."""
    with _suspend_garbage_collection():
        from headrace.cli.run_report import choose_report

        report = choose_report(pipeline, log, quiet=quiet)
        checked = check_pipeline(pipeline, overrides)
        for problem in checked.problems:
            report.report_problem(problem)
    return checked, report


def _is_replayable(plan: Plan) -> bool:
    """Whether all sources can be read again from a position."""
    from headrace.connectors.registry import REGISTRY
    from headrace.core.plan import nodes

    sides = (REGISTRY[part.connector].source for part in plan if isinstance(part, nodes.Source))
    return all(side is not None and side.is_replayable for side in sides)


def _check_reset_state(plan: Plan, names: Sequence[str], ctx: click.Context) -> None:
    """Check that these are sources or steps with state."""
    if not names:
        return
    from headrace.core.errors.problems import suggest_name
    from headrace.core.plan import nodes
    from headrace.core.plan.fingerprint import build_fingerprints

    kept = [
        *(part.name for part in plan if isinstance(part, nodes.Source)),
        *build_fingerprints(plan),
    ]
    for name in names:
        if name not in kept:
            message = f'--reset-state: wanted a source or a step with state, got "{name}"'
            hint = suggest_name(name, kept) or f"there are {', '.join(kept)}"
            raise click.UsageError(f"{message}: {hint}", ctx)


def _build_launch(
    buffer: Buffer, folder: Path, limit: int | None, signals: SignalHandler, report: RunReport
) -> LaunchOptions:
    from headrace.core.coordination.events import ExternalWarning
    from headrace.core.dataflow.channel import ChannelBounds
    from headrace.core.job.launch import LaunchOptions

    bounds = ChannelBounds(buffer.rows, linger_s=buffer.timeout.total_seconds())
    return LaunchOptions(
        folder,
        bounds,
        limit,
        (_make_watcher(report),),
        signals=signals,
        on_stop_requested=report.report_stopping,
        report_warning=lambda line: report.report_event(ExternalWarning(line)),
    )


def _add_monitoring(
    how: LaunchOptions, port: int, report: RunReport, ctx: click.Context
) -> LaunchOptions:
    """Add the server of metrics and health to the launch."""
    from headrace.cli.command_group import find_installed_version
    from headrace.cli.metrics.monitoring_server import (
        MonitoringServer,
        PortUnavailable,
        format_url,
        open_port,
    )

    try:
        listening = ctx.ensure_object(ExitStack).enter_context(open_port(port))
    except PortUnavailable as error:
        report.report_rejection(error.message, error.hint, 2)
        ctx.exit(2)
    report.report_url(format_url(listening), chosen=port == 0)
    monitoring = MonitoringServer(listening, find_installed_version())
    return replace(how, watchers=(*how.watchers, monitoring.watch))


@contextmanager
def _suspend_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection during start-up, where it takes a fifth of the time in vain."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _run_plan(
    plan: Plan,
    checked: CheckedPipeline,
    how: LaunchOptions,
    report: RunReport,
    start: StartOptions | None,
) -> int:
    """Run the plan, and report its end; return the exit status."""
    from headrace.core.api.failures import ConnectorError, format_refusal
    from headrace.core.api.snapshots import SnapshotError
    from headrace.core.api.user_code import UserCodeError
    from headrace.core.job.launch import JobInterrupted
    from headrace.core.job.signals import INTERRUPTED_STATUS

    report.report_start(plan)
    try:
        if start is None:
            return _run_ephemeral(plan, checked.pipeline.settings, how, report)
        return _run_resumable(plan, checked, how, report, start)
    except (ConnectorError, SnapshotError) as error:
        report.report_rejection(format_refusal(error), error.hint, error.exit_status)
        return error.exit_status
    except UserCodeError as error:
        report.report_rejection(error.message, error.hint, 2)
        return 2
    except JobInterrupted:
        report.report_interrupted(kept=start is not None)
        return INTERRUPTED_STATUS


def _run_resumable(
    plan: Plan, checked: CheckedPipeline, how: LaunchOptions, report: RunReport, start: StartOptions
) -> int:
    """Run a job with checkpoints, resuming from the newest one."""
    import asyncio

    from headrace.cli.command_group import find_installed_version
    from headrace.cli.control.control_launch import add_control
    from headrace.cli.control.job_summary import JobDescription, JobSummary
    from headrace.cli.job_restore import prepare_job
    from headrace.cli.start_options import format_now

    def look() -> None:
        from headrace.cli.savepoint_restore import check_continued_sinks
        from headrace.connectors.registry import REGISTRY
        from headrace.core.worker.connectors import check_connectors

        if start.savepoint is not None:
            asyncio.run(check_continued_sinks(plan, REGISTRY, how.folder))
        asyncio.run(check_connectors(plan, REGISTRY, how.folder))

    def news(said: JobEvent) -> None:
        report.report_event(said)
        figures.record_event(said)

    home, settings = os.path.abspath(start.home_root), checked.pipeline.settings
    about = JobDescription(
        str(plan.name), checked.file, find_installed_version(), home, format_now()
    )
    figures = JobSummary(about)
    with prepare_job(plan, settings, start, news, look) as resumed:
        if resumed is None:
            report.report_already_finished()
            return 0
        how = replace(
            how,
            storage=resumed.storage,
            initial_checkpoint=resumed.restored_checkpoint,
            job_id=resumed.job,
        )
        how = add_control(how, resumed.home, checked.loaded_pipeline, figures, news)
        status = _launch_job(plan, settings, how, report, resumed.home.state_folder)
        resumed.finish()
    return status


def _run_ephemeral(plan: Plan, settings: Settings, how: LaunchOptions, report: RunReport) -> int:
    """Run a job without checkpoints."""
    with TemporaryDirectory(prefix="headrace-") as folder:
        return _launch_job(plan, settings, how, report, folder)


def _launch_job(
    plan: Plan, settings: Settings, how: LaunchOptions, report: RunReport, folder: str
) -> int:
    from headrace.cli.run_progress import summarize_run
    from headrace.connectors.registry import REGISTRY
    from headrace.connectors.standard_output import redirect_prints
    from headrace.core.job.launch import launch_job
    from headrace.core.plan import nodes
    from headrace.state.backends import open_backend

    sinks = {part.connector for part in plan if isinstance(part, nodes.Sink)}
    printed = not sinks.isdisjoint(("console", "stdout"))
    with report.open_display(), redirect_prints() if printed else nullcontext():
        outcome = launch_job(plan, REGISTRY, open_backend(settings.state, folder), how)
    if outcome.failure:
        report.report_failure(outcome.failure)
    elif how.initial_checkpoint is not None and how.initial_checkpoint.is_final:
        report.report_already_finished()
        return 0
    report.report_summary(outcome, summarize_run(plan, outcome))
    return 1 if outcome.failure else 0


def _make_watcher(report: RunReport) -> Watcher:
    """Return a watcher that reports the job's progress periodically."""
    import asyncio

    from headrace.cli.run_progress import ProgressMeter

    async def watch(job: Job) -> None:
        loop = asyncio.get_running_loop()
        start, progress = loop.time(), ProgressMeter()
        while True:
            await asyncio.sleep(report.interval_s)
            progress.set_baseline(job.initial_counts)
            report.report_progress(
                progress.sample(job.plan, job.collect_counts(), loop.time() - start)
            )

    return watch
