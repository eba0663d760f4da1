"""`headrace run`: a pipeline, run to its end or until somebody asks it to stop."""

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
@click.option("--limit", type=WholeNumber(1), help="Read only so many rows of each source.")
@click.option("--fresh", is_flag=True, help="Begin anew: forget the job's checkpoints.")
@click.option(
    "--from-checkpoint",
    type=WholeNumber(1),
    help="Go on from this checkpoint; those that are newer are removed.",
)
@click.option(
    "--from-savepoint",
    metavar="PATH",
    help="Go on from this savepoint, whatever is in the home.",
)
@click.option(
    "--reset-state",
    metavar="STEP",
    multiple=True,
    help="Forget what is kept of this step, or how far this source was read; may be repeated.",
)
@click.option(
    "--allow-lost-state",
    is_flag=True,
    help="Forget what the pipeline, as it is now, does not go on with.",
)
@click.option(
    "--resume-drained",
    is_flag=True,
    help="Go on behind `stop --drain`: windows that fired then are made anew of later rows.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Go on although a run on another machine has the bucket of the checkpoints: it is gone, "
    "or stops at its next checkpoint.",
)
@home_option
@batch_options("Run it once over all there is, on Spark;")
@click.option(
    "--http",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    help="Serve /metrics, /live and /ready on this port of 127.0.0.1; 0: on one that is free.",
)
@click.option("--quiet", is_flag=True, help="Say nothing but what goes wrong.")
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json tells a program: an object a line, on standard error.",
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

    It ends when its sources do, or at the first Ctrl-C or SIGTERM, with a checkpoint; the second
    Ctrl-C ends it at once. However it ends, the same command goes on from its newest checkpoint,
    and nothing is lost or written twice. With --limit, or when it reads standard input, which
    cannot be read again, nothing is kept: at the first Ctrl-C what was read is finished.

    On a terminal a table shows what each part is doing; elsewhere a line every ten seconds.
    Backpressure is the share of time that a part waits for those who read from it: ok up to 10 %,
    low up to 50 %, else high.

    With --batch it runs once over all there is, on Spark: the same rows, which are seen when all of
    them are written. The first Ctrl-C ends that, and nothing is written.
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
        raise click.UsageError("nothing is kept of a run with --limit, or of standard input", ctx)
    how = _how(checked.pipeline.settings.buffer, Path(pipeline).parent, limit, signals, report)
    if http is not None:
        how = _monitored(how, http, report, ctx)
    ctx.exit(_run(checked.plan, checked, how, report, start))


def _check_beginnings(
    fresh: bool, checkpoint: int | None, savepoint: str | None, ctx: click.Context
) -> None:
    """Whether it is said once at most what to go on from."""
    if fresh and checkpoint is not None:
        raise click.UsageError("--fresh forgets what --from-checkpoint goes on from", ctx)
    if savepoint is not None and (fresh or checkpoint is not None):
        other = "--fresh" if fresh else "--from-checkpoint"
        message = f"wanted one thing to begin with, got --from-savepoint and {other}"
        raise click.UsageError(message, ctx)


def _checked(
    pipeline: str, overrides: Sequence[str], log: str, *, quiet: bool
) -> tuple[Checked, Report]:
    """The pipeline, and who tells of it; what is wrong with it has been told."""
    with _nothing_collected():
        from headrace.cli.run_report import report_for

        report = report_for(pipeline, log, quiet=quiet)
        checked = check(pipeline, overrides)
        for problem in checked.problems:
            report.problem(problem)
    return checked, report


def _replays(plan: Plan) -> bool:
    """Whether all that it reads can be read again from a position."""
    from headrace.connectors.registry import REGISTRY
    from headrace.core.plan import nodes

    sides = (REGISTRY[part.connector].source for part in plan if isinstance(part, nodes.Source))
    return all(side is not None and side.replays for side in sides)


def _check_kept(plan: Plan, names: Sequence[str], ctx: click.Context) -> None:
    """Whether something is kept of these steps and sources."""
    if not names:
        return
    from headrace.core.plan import nodes
    from headrace.core.plan.fingerprint import fingerprints
    from headrace.core.problems import did_you_mean

    kept = [*(part.name for part in plan if isinstance(part, nodes.Source)), *fingerprints(plan)]
    for name in names:
        if name not in kept:
            message = f'--reset-state: wanted a source or a step that keeps state, got "{name}"'
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
    """The same launch, with metrics and health beside the job."""
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
    """What start-up makes stays: looking through it for garbage costs a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _run(plan: Plan, checked: Checked, how: Launch, report: Report, start: Start | None) -> int:
    """Run it and tell of it; the exit status."""
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
    """Run a job that goes on from where it was, and can go on from where it ends."""
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
    """Run a job of which nothing stays."""
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
    """Looks at the job as often as the report wants it."""
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
