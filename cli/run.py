"""`headrace run`: runs a pipeline until it ends or a stop is requested.

A run is one of three: a batch run on Spark, a job that can resume from checkpoints, or a job
without them. They share the loading of the pipeline, the launch of a job, and the report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.batch.options import add_batch_options, check_options
from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import PipelineFile
from headrace.cli.garbage_collection import suspend_garbage_collection
from headrace.cli.pipeline_file import add_home_option, add_set_option, check_pipeline
from headrace.cli.run_options import RunOptions

if TYPE_CHECKING:
    from headrace.cli.control.job_summary import JobSummary
    from headrace.cli.job_restore import PreparedJob
    from headrace.cli.pipeline_file import CheckedPipeline
    from headrace.cli.run_report import RunReport
    from headrace.core.coordination.events import JobEvent
    from headrace.core.job.launch import LaunchOptions
    from headrace.core.job.signals import SignalHandler
    from headrace.core.pipeline.loader import LoadedPipeline
    from headrace.core.pipeline.settings import Settings
    from headrace.core.plan.nodes import Plan


WITHOUT_WORKERS = "a run with --limit or of standard input has no workers"


@click.command()
@click.argument("pipeline", type=PipelineFile())
@add_set_option
@click.option("--parallelism", type=WholeNumber(1), help="Subtasks of each part.")
@click.option(
    "--workers",
    metavar="N|auto",
    help="Processes that run the subtasks; auto: as many as pay on this machine.",
)
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
@click.option(
    "--http-host",
    multiple=True,
    metavar="NAME",
    help="A host name under which --http is called, beside localhost and addresses; repeatable.",
)
@click.option(
    "--otlp",
    metavar="URL",
    envvar="HEADRACE_OTLP",
    show_envvar=True,
    help="Send metrics and traces to this receiver of OpenTelemetry, as in http://127.0.0.1:4318. "
    "Needs `pip install 'headrace[otlp]'`.",
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json is for programs: one object per line, on standard error.",
)
@click.option(
    "--log-file",
    metavar="FILE",
    help="Append standard output and standard error to this file; at 10 MB it becomes FILE.1, then "
    "FILE.2 and FILE.3.",
)
@click.option("--text", hidden=True, help="Read the text of the pipeline from this file.")
@click.pass_context
def run(ctx: click.Context, /, **parameters: Any) -> None:
    """Run a pipeline.

    It ends when its sources end, or with a checkpoint at the first Ctrl-C or SIGTERM; the second
    ends it within a second. However it ends, the same command resumes from its newest checkpoint,
    and no row is lost or written twice. With --limit, or with standard input, which cannot be read
    again, it takes no checkpoints: the first Ctrl-C finishes the rows that were read.

    On a terminal a table shows what each part is doing; elsewhere a line is printed every ten
    seconds. Backpressure is the share of time that a part waits for its readers: ok up to 10 %,
    low up to 50 %, else high.

    With --batch the pipeline runs once over all existing rows, on Spark. The output has the same
    rows, and becomes visible when all are written. The first Ctrl-C stops it; nothing is written.
    """
    from headrace.cli.process_limits import check_process_limits
    from headrace.core.job.signals import SignalHandler

    signals = ctx.ensure_object(ExitStack).enter_context(SignalHandler())
    check_options(ctx)
    options = RunOptions.from_parameters(parameters)
    if conflict := options.find_conflict():
        raise click.UsageError(conflict, ctx)
    if options.log_file is not None:
        from headrace.cli.server.log_rotation import open_log

        ctx.ensure_object(ExitStack).enter_context(open_log(options.log_file))
    with suspend_garbage_collection():
        check_process_limits(spark=options.batch)
        checked, report = _load_pipeline(options, signals)
    if checked.plan is None or not checked.is_valid:
        ctx.exit(2)
    if options.batch:
        ctx.exit(run_batch(options, checked, checked.plan, report, signals))
    from headrace.cli.run_watchers import add_monitoring, add_otlp

    is_resumable = _check_checkpoint_options(options, checked.plan, ctx)
    launch = _build_launch(options, checked.pipeline.settings, signals, report)
    if options.http is not None:
        launch = add_monitoring(launch, options.http, options.http_host, report, ctx)
    report.report_start(checked.plan)
    signals.describe_end = partial(report.format_interrupted, is_resumable=is_resumable)
    with _report_errors(report, ctx, signals, is_resumable=is_resumable):
        if options.otlp is not None:
            launch = add_otlp(launch, options.otlp)
        if is_resumable:
            status = run_resumable(options, checked, checked.plan, launch, report)
        else:
            if checked.pipeline.settings.workers > 1:
                launch.report_warning(f"one process runs everything: {WITHOUT_WORKERS}")
            status = run_ephemeral(checked.plan, checked.pipeline.settings, launch, report)
    ctx.exit(status)


def _check_checkpoint_options(options: RunOptions, plan: Plan, ctx: click.Context) -> bool:
    """Return whether the run takes checkpoints. Raises UsageError for options that do not fit."""
    is_resumable = options.limit is None and _is_replayable(plan)
    if is_resumable:
        _check_reset_state(plan, options.reset_state, ctx)
    elif options.needs_checkpoints:
        raise click.UsageError("a run with --limit or of standard input takes no checkpoints", ctx)
    return is_resumable


def run_batch(
    options: RunOptions,
    checked: CheckedPipeline,
    plan: Plan,
    report: RunReport,
    signals: SignalHandler,
) -> int:
    """Run a plan once over all existing rows, on Spark; return the exit status."""
    from headrace.cli.batch.batch_run import BatchRun

    return BatchRun(options, checked, plan, report).run(signals)


def run_resumable(
    options: RunOptions,
    checked: CheckedPipeline,
    plan: Plan,
    launch: LaunchOptions,
    report: RunReport,
) -> int:
    """Run a job with checkpoints from its starting point; return the exit status."""
    from headrace.cli.control.control_launch import add_control
    from headrace.cli.job_restore import prepare_job
    from headrace.cli.run_watchers import add_diagnosis
    from headrace.cli.worker_launch import add_workers

    def record_event(event: JobEvent) -> None:
        report.report_event(event)
        summary.record_event(event)

    settings, summary = checked.pipeline.settings, _summarize_job(options, plan)
    check = partial(_check_connectors, plan, launch.folder, options)
    prepare = partial(
        prepare_job, settings=settings, options=options, report=record_event, check=check
    )
    with ExitStack() as stack:
        job, loaded, plan = _enter_job(stack, prepare, checked, plan)
        if job is None:
            report.report_already_finished()
            return 0
        launch = replace(
            launch,
            storage=job.storage,
            initial_checkpoint=job.restored_checkpoint,
            job_id=job.job,
        )
        launch = add_diagnosis(launch, summary.diagnosis, report)
        launch = add_control(launch, job.home, loaded, summary, record_event)
        launch = add_workers(launch, loaded, plan, job.home, record_event)
        status = _launch_job(plan, settings, launch, report, job.home.state_folder)
        job.finish()
    return status


def _enter_job(
    stack: ExitStack,
    prepare: Callable[[Plan], AbstractContextManager[PreparedJob | None]],
    checked: CheckedPipeline,
    plan: Plan,
) -> tuple[PreparedJob | None, LoadedPipeline, Plan]:
    """Prepare a job with the plan, or with that of earlier versions if its state is of that."""
    from headrace.core.api.snapshots import RefusedSnapshot

    try:
        return stack.enter_context(prepare(plan)), checked.loaded_pipeline, plan
    except RefusedSnapshot:
        for loaded, earlier in checked.build_earlier_plans():
            with suppress(RefusedSnapshot):
                return stack.enter_context(prepare(earlier)), loaded, earlier
        raise


def run_ephemeral(plan: Plan, settings: Settings, launch: LaunchOptions, report: RunReport) -> int:
    """Run a job without checkpoints; return the exit status."""
    from headrace.cli.job_diagnosis import JobDiagnosis
    from headrace.cli.run_watchers import add_diagnosis

    launch = add_diagnosis(launch, JobDiagnosis(), report)
    with TemporaryDirectory(prefix="headrace-") as folder:
        return _launch_job(plan, settings, launch, report, folder)


def _load_pipeline(
    options: RunOptions, signals: SignalHandler
) -> tuple[CheckedPipeline, RunReport]:
    """Load the pipeline, and report its problems; also return the report."""
    from headrace.cli.run_report import choose_report

    report = choose_report(options.pipeline, options.log, quiet=options.quiet)
    signals.announce_with(report.report_stopping)
    checked = check_pipeline(options.pipeline, options.settings, options.text)
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
    if error := find_unknown_state(plan, names):
        raise click.UsageError(error, ctx)


def find_unknown_state(plan: Plan, names: Sequence[str]) -> str:
    """Return the error of the first name that is no source or step with state; empty: all are."""
    if not names:
        return ""
    from headrace.core.errors.problems import suggest_name
    from headrace.core.plan import nodes
    from headrace.core.plan.fingerprint import build_fingerprints

    stateful_names = [
        *(part.name for part in plan if isinstance(part, nodes.Source)),
        *build_fingerprints(plan),
    ]
    for name in names:
        if name not in stateful_names:
            message = f'--reset-state: wanted a source or a step with state, got "{name}"'
            hint = suggest_name(name, stateful_names) or f"there are {', '.join(stateful_names)}"
            return f"{message}: {hint}"
    return ""


def _build_launch(
    options: RunOptions, settings: Settings, signals: SignalHandler, report: RunReport
) -> LaunchOptions:
    from headrace.cli.run_watchers import make_progress_watcher
    from headrace.core.coordination.events import ExternalWarning
    from headrace.core.dataflow.channel import ChannelBounds
    from headrace.core.job.launch import LaunchOptions

    return LaunchOptions(
        options.folder,
        ChannelBounds.from_settings(settings),
        options.limit,
        (make_progress_watcher(report),),
        signals=signals,
        report_warning=lambda line: report.report_event(ExternalWarning(line)),
    )


@contextmanager
def _report_errors(
    report: RunReport, ctx: click.Context, signals: SignalHandler, *, is_resumable: bool
) -> Iterator[None]:
    """Report within the `with` why a job could not start or was interrupted, and exit."""
    from headrace.core.api.failures import ConnectorError, format_refusal
    from headrace.core.api.snapshots import SnapshotError
    from headrace.core.api.user_code import UserCodeError
    from headrace.core.errors.interrupts import INTERRUPTED_STATUS
    from headrace.core.job.launch import JobInterrupted

    try:
        yield
    except (ConnectorError, SnapshotError) as error:
        report.report_rejection(format_refusal(error), error.hint, error.exit_status)
        ctx.exit(error.exit_status)
    except UserCodeError as error:
        report.report_rejection(error.message, error.hint, 2)
        ctx.exit(2)
    except JobInterrupted:
        report.report_interrupted(is_resumable=is_resumable)
        signals.describe_end = str  # it is printed
        ctx.exit(INTERRUPTED_STATUS)


def _summarize_job(options: RunOptions, plan: Plan) -> JobSummary:
    """Return the summary of a job that starts now."""
    from headrace.cli.command_group import find_installed_version
    from headrace.cli.control.job_summary import JobDescription, JobSummary
    from headrace.core.api.snapshots import format_now

    file = str(options.folder / os.path.basename(options.pipeline))
    about = JobDescription(
        str(plan.name), file, find_installed_version(), options.home, format_now()
    )
    return JobSummary(about)


def _check_connectors(plan: Plan, folder: Path, options: RunOptions) -> None:
    """Check what a new job needs of its connectors. Raises ConnectorError."""
    import asyncio

    from headrace.cli.savepoint_restore import check_continued_sinks
    from headrace.connectors.registry import REGISTRY
    from headrace.core.worker.connectors import check_connectors

    if options.from_savepoint is not None:
        asyncio.run(check_continued_sinks(plan, REGISTRY, folder))
    asyncio.run(check_connectors(plan, REGISTRY, folder))


def _launch_job(
    plan: Plan, settings: Settings, launch: LaunchOptions, report: RunReport, folder: str
) -> int:
    """Run the job with its state in a folder, and report its end; return the exit status."""
    from headrace.cli.run_progress import summarize_run
    from headrace.connectors.registry import REGISTRY
    from headrace.connectors.standard_output import redirect_prints
    from headrace.core.job.launch import launch_job
    from headrace.core.plan import nodes
    from headrace.state.backends import open_backend

    sinks = {part.connector for part in plan if isinstance(part, nodes.Sink)}
    printed = not sinks.isdisjoint(("console", "stdout"))
    with report.open_display(), redirect_prints() if printed else nullcontext():
        outcome = launch_job(plan, REGISTRY, open_backend(settings.state, folder), launch)
    if outcome.failure:
        report.report_failure(outcome.failure)
    elif launch.initial_checkpoint is not None and launch.initial_checkpoint.is_final:
        report.report_already_finished()
        return 0
    report.report_summary(outcome, summarize_run(plan, outcome))
    return 1 if outcome.failure else 0
