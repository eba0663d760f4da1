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

from headrace.cli.batch.options import batch_options, check_options
from headrace.cli.completion import PipelineFile
from headrace.cli.group import WholeNumber
from headrace.cli.pipelines import check, home_option, set_option

if TYPE_CHECKING:
    from headrace.cli.pipelines import Checked
    from headrace.cli.resuming import Start
    from headrace.cli.run_report import Report
    from headrace.core.job import Job
    from headrace.core.launch import Launch, Watcher
    from headrace.core.news import News
    from headrace.core.pipeline.settings import Buffer, Settings
    from headrace.core.plan import Plan
    from headrace.core.signals import Signals


@click.command()
@click.argument("pipeline", type=PipelineFile())
@set_option
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
@home_option
@batch_options("Run once over all existing rows, on Spark.")
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
    from headrace.core.signals import Signals

    signals = ctx.ensure_object(ExitStack).enter_context(Signals())
    check_options(ctx)
    _check_beginnings(fresh, from_checkpoint, from_savepoint, ctx)
    if parallelism is not None:
        overrides = (*overrides, f"settings.parallelism={parallelism}")
    checked, report = _checked(pipeline, overrides, log, quiet=quiet)
    if checked.plan is None or not checked.ok:
        ctx.exit(2)
    if batch:
        from headrace.cli.batch.running import Batch

        asked = Batch(checked, checked.plan, report, home, fresh=fresh)
        ctx.exit(asked.run(master, conf, signals))
    start = None
    if limit is None and _replays(checked.plan):
        from headrace.cli.resuming import Start

        _check_kept(checked.plan, reset_state, ctx)
        start = Start(
            *(home, fresh, from_checkpoint, frozenset(reset_state), allow_lost_state),
            savepoint=from_savepoint,
            drained=resume_drained,
            take_over=take_over,
        )
    elif any(
        [from_checkpoint, from_savepoint, reset_state, allow_lost_state, resume_drained, take_over]
    ):
        raise click.UsageError("a run with --limit or of standard input takes no checkpoints", ctx)
    how = _how(checked.pipeline.settings.buffer, Path(pipeline).parent, limit, signals, report)
    if http is not None:
        how = _monitored(how, http, report, ctx)
    ctx.exit(_run(checked.plan, checked, how, report, start))


def _check_beginnings(
    fresh: bool, checkpoint: int | None, savepoint: str | None, ctx: click.Context
) -> None:
    """Check that at most one starting point is given."""
    if fresh and checkpoint is not None:
        raise click.UsageError("--fresh removes what --from-checkpoint resumes from", ctx)
    if savepoint is not None and (fresh or checkpoint is not None):
        other = "--fresh" if fresh else "--from-checkpoint"
        message = f"wanted one starting point, got --from-savepoint and {other}"
        raise click.UsageError(message, ctx)


def _checked(
    pipeline: str, overrides: Sequence[str], log: str, *, quiet: bool
) -> tuple[Checked, Report]:
    """Load the pipeline, and report its problems; also return the report."""
    with _nothing_collected():
        from headrace.cli.run_report import report_for

        report = report_for(pipeline, log, quiet=quiet)
        checked = check(pipeline, overrides)
        for problem in checked.problems:
            report.problem(problem)
    return checked, report


def _replays(plan: Plan) -> bool:
    """Whether all sources can be read again from a position."""
    from headrace.connectors.registry import REGISTRY
    from headrace.core.plan import nodes

    sides = (REGISTRY[part.connector].source for part in plan if isinstance(part, nodes.Source))
    return all(side is not None and side.replays for side in sides)


def _check_kept(plan: Plan, names: Sequence[str], ctx: click.Context) -> None:
    """Check that these are sources or steps with state."""
    if not names:
        return
    from headrace.core.plan import nodes
    from headrace.core.plan.fingerprint import fingerprints
    from headrace.core.problems import did_you_mean

    kept = [*(part.name for part in plan if isinstance(part, nodes.Source)), *fingerprints(plan)]
    for name in names:
        if name not in kept:
            message = f'--reset-state: wanted a source or a step with state, got "{name}"'
            hint = did_you_mean(name, kept) or f"there are {', '.join(kept)}"
            raise click.UsageError(f"{message}: {hint}", ctx)


def _how(
    buffer: Buffer, folder: Path, limit: int | None, signals: Signals, report: Report
) -> Launch:
    from headrace.core.channel import Bounds
    from headrace.core.launch import Launch
    from headrace.core.news import Noticed

    bounds = Bounds(buffer.rows, linger_s=buffer.timeout.total_seconds())
    return Launch(
        folder,
        bounds,
        limit,
        (_watcher(report),),
        signals=signals,
        asked=report.stopping,
        tell=lambda line: report.news(Noticed(line)),
    )


def _monitored(how: Launch, port: int, report: Report, ctx: click.Context) -> Launch:
    """Add the server of metrics and health to the launch."""
    from headrace.cli.metrics.serving import CannotListen, Monitoring, listener, url
    from headrace.cli.version import installed_version

    try:
        listening = ctx.ensure_object(ExitStack).enter_context(listener(port))
    except CannotListen as error:
        report.refusal(error.message, error.hint, 2)
        ctx.exit(2)
    report.serving(url(listening), chosen=port == 0)
    monitoring = Monitoring(listening, installed_version())
    return replace(how, watchers=(*how.watchers, monitoring.watch))


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Suspend garbage collection during start-up, where it takes a fifth of the time in vain."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _run(plan: Plan, checked: Checked, how: Launch, report: Report, start: Start | None) -> int:
    """Run the plan, and report its end; return the exit status."""
    from headrace.core.contracts import ConnectorError
    from headrace.core.launch import Interrupted
    from headrace.core.signals import INTERRUPTED
    from headrace.core.snapshots import SnapshotError
    from headrace.core.telling import refusal
    from headrace.core.user_code import UserCodeError

    report.start(plan)
    try:
        if start is None:
            return _unkept(plan, checked.pipeline.settings, how, report)
        return _kept(plan, checked, how, report, start)
    except (ConnectorError, SnapshotError) as error:
        report.refusal(refusal(error), error.hint, error.exit_status)
        return error.exit_status
    except UserCodeError as error:
        report.refusal(error.message, error.hint, 2)
        return 2
    except Interrupted:
        report.interrupted(kept=start is not None)
        return INTERRUPTED


def _kept(plan: Plan, checked: Checked, how: Launch, report: Report, start: Start) -> int:
    """Run a job with checkpoints, resuming from the newest one."""
    import asyncio

    from headrace.cli.control.figures import About, Figures
    from headrace.cli.control.launching import controlled
    from headrace.cli.resuming import now, resuming
    from headrace.cli.version import installed_version

    def look() -> None:
        from headrace.cli.saved import check_sinks
        from headrace.connectors.registry import REGISTRY
        from headrace.core.ends import look

        if start.savepoint is not None:
            asyncio.run(check_sinks(plan, REGISTRY, how.folder))
        asyncio.run(look(plan, REGISTRY, how.folder))

    def news(said: News) -> None:
        report.news(said)
        figures.hear(said)

    home, settings = os.path.abspath(start.root), checked.pipeline.settings
    about = About(str(plan.name), checked.file, installed_version(), home, now())
    figures = Figures(about)
    with resuming(plan, settings, start, news, look) as resumed:
        if resumed is None:
            report.had_finished()
            return 0
        how = replace(how, keeping=resumed.keeping, restored=resumed.restored, job=resumed.job)
        how = controlled(how, resumed.home, checked.loaded, figures, news)
        status = _launched(plan, settings, how, report, resumed.home.state)
        resumed.over()
    return status


def _unkept(plan: Plan, settings: Settings, how: Launch, report: Report) -> int:
    """Run a job without checkpoints."""
    with TemporaryDirectory(prefix="headrace-") as folder:
        return _launched(plan, settings, how, report, folder)


def _launched(plan: Plan, settings: Settings, how: Launch, report: Report, folder: str) -> int:
    from headrace.cli.run_progress import overall
    from headrace.connectors.output import rows_apart
    from headrace.connectors.registry import REGISTRY
    from headrace.core.launch import launch
    from headrace.core.plan import nodes
    from headrace.state.backends import backend

    sinks = {part.connector for part in plan if isinstance(part, nodes.Sink)}
    printed = not sinks.isdisjoint(("console", "stdout"))
    with report.showing(), rows_apart() if printed else nullcontext():
        outcome = launch(plan, REGISTRY, backend(settings.state, folder), how)
    if outcome.failure:
        report.failure(outcome.failure)
    elif how.restored is not None and how.restored.ended:
        report.had_finished()
        return 0
    report.summary(outcome, overall(plan, outcome))
    return 1 if outcome.failure else 0


def _watcher(report: Report) -> Watcher:
    """Return a watcher that reports the job's progress periodically."""
    import asyncio

    from headrace.cli.run_progress import Progress

    async def watch(job: Job) -> None:
        loop = asyncio.get_running_loop()
        start, progress = loop.time(), Progress()
        while True:
            await asyncio.sleep(report.every_s)
            progress.begin(job.before)
            report.progress(progress.look(job.plan, job.counts(), loop.time() - start))

    return watch
