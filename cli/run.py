"""`headrace run`: a pipeline, run to its end or until somebody asks it to stop."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import PipelineFile
from headrace.cli.group import WholeNumber
from headrace.cli.pipelines import check, set_option

if TYPE_CHECKING:
    from headrace.cli.run_report import Report
    from headrace.core.job import Job
    from headrace.core.launch import Launch, Watcher
    from headrace.core.pipeline.settings import Buffer
    from headrace.core.plan import Plan


@click.command()
@click.argument("pipeline", type=PipelineFile())
@set_option
@click.option("--parallelism", type=WholeNumber(1), help="Subtasks of each part.")
@click.option("--limit", type=WholeNumber(1), help="Read only so many rows of each source.")
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
    quiet: bool,
    log: str,
) -> None:
    """Run a pipeline.

    It ends when its sources do, or at the first Ctrl-C or SIGTERM, when what was read is finished
    and written; the second Ctrl-C ends it at once.

    On a terminal a table shows what each part is doing; elsewhere a line every ten seconds.
    Backpressure is the share of time that a part waits for those who read from it: ok up to 10 %,
    low up to 50 %, else high.
    """
    from headrace.core.signals import Signals

    signals = ctx.ensure_object(ExitStack).enter_context(Signals())
    with _nothing_collected():
        from headrace.cli.run_report import report_for

        if parallelism is not None:
            overrides = (*overrides, f"settings.parallelism={parallelism}")
        report = report_for(pipeline, log, quiet=quiet)
        checked = check(pipeline, overrides)
        for problem in checked.problems:
            report.problem(problem)
    if checked.plan is None or not checked.ok:
        ctx.exit(2)
    how = _how(checked.pipeline.settings.buffer, Path(pipeline).parent, limit, checked.plan, report)
    ctx.exit(_run(checked.plan, replace(how, signals=signals), report))


def _how(buffer: Buffer, folder: Path, limit: int | None, plan: Plan, report: Report) -> Launch:
    from headrace.core.channel import Bounds
    from headrace.core.launch import Launch

    bounds = Bounds(buffer.rows, linger_s=buffer.timeout.total_seconds())
    return Launch(folder, bounds, limit, _watcher(plan, report), report.stopping)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What start-up makes stays: looking through it for garbage costs a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _run(plan: Plan, how: Launch, report: Report) -> int:
    """Run it and tell of it; the exit status."""
    from headrace.cli.run_progress import overall
    from headrace.connectors.registry import REGISTRY
    from headrace.core.contracts import ConnectorError
    from headrace.core.launch import Interrupted, launch
    from headrace.core.signals import INTERRUPTED
    from headrace.core.user_code import UserCodeError
    from headrace.state.memory import MemoryBackend

    report.start(plan)
    try:
        with report.showing():
            outcome = launch(plan, REGISTRY, MemoryBackend(), how)
    except ConnectorError as error:
        report.refusal(error.message, error.hint, error.exit_status)
        return error.exit_status
    except UserCodeError as error:
        report.refusal(error.message, error.hint, 2)
        return 2
    except Interrupted:
        report.interrupted()
        return INTERRUPTED
    if outcome.failure:
        report.failure(outcome.failure)
    report.summary(outcome, overall(plan, outcome.parts, outcome.seconds))
    return 1 if outcome.failure else 0


def _watcher(plan: Plan, report: Report) -> Watcher:
    """Looks at the job as often as the report wants it."""
    import asyncio

    from headrace.cli.run_progress import Progress

    async def watch(job: Job) -> None:
        loop = asyncio.get_running_loop()
        start, progress = loop.time(), Progress(plan)
        while True:
            await asyncio.sleep(report.every_s)
            report.progress(progress.look(job.counts(), loop.time() - start))

    return watch
