"""`headrace simulate`: runs a pipeline on random rows under faults, and prints what differs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import PipelineFile
from headrace.cli.pipeline_file import add_set_option, paint_problem

if TYPE_CHECKING:
    from headrace.cli.pipeline_tests.report import CaseResult
    from headrace.cli.simulation.simulation import FailedSeed, Simulation


@click.command()
@click.argument("file", type=PipelineFile(), metavar="FILE")
@click.option(
    "--seeds",
    metavar="N",
    type=WholeNumber(min=1),
    default=200,
    show_default=True,
    help="Run this many seeds, from 0.",
)
@click.option("--seed", metavar="N", type=WholeNumber(min=0), help="Run this seed only.")
@click.option(
    "--minutes",
    metavar="N",
    type=click.FloatRange(min=0, min_open=True),
    default=2,
    show_default=True,
    help="Begin no further seed after this time.",
)
@click.option(
    "--rows",
    metavar="N",
    type=WholeNumber(min=1, max=10_000),
    default=200,
    show_default=True,
    help="The largest number of rows of a seed.",
)
@click.option(
    "--sample",
    "samples",
    metavar="SOURCE=FILE",
    multiple=True,
    help="Draw rows of a source from a file: .csv, .jsonl or .parquet. May be repeated.",
)
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False), help="Write JUnit XML.")
@add_set_option
@click.pass_context
def simulate(
    ctx: click.Context,
    file: str,
    seeds: int,
    seed: int | None,
    minutes: float,
    rows: int,
    samples: Sequence[str],
    junit: str | None,
    overrides: Sequence[str],
) -> None:
    """Run a pipeline on random rows under faults.

    FILE is a pipeline. Nothing outside is read or written: rows are drawn from the schemas of the
    sources, and time is virtual. Each seed runs twice: undisturbed at parallelism 1, and with
    crashes, restarts, savepoints, other parallelism, slow and failing sinks, and rows cut at
    random. The results must be the same, and fulfil the `invariants:`. Without user code or `ttl`,
    they must also be those of a simple interpreter. The first seed that fails is made as small as
    possible, and printed as a test. The exit status is then 1; it is 2 if the pipeline has a
    mistake, or fails on the rows undisturbed.
    """
    from headrace.cli.pipeline_tests.checked_tests import Suite, check_suite, read_files_beside
    from headrace.cli.pipeline_tests.junit import write_junit
    from headrace.cli.process_limits import limit_polars_threads

    limit_polars_threads(1)
    from headrace.cli.simulation.sample_files import parse_sample
    from headrace.cli.simulation.simulation import Simulation

    checked = check_suite(Suite(file, with_section=True, files=read_files_beside(file)), overrides)
    for problem in checked.problems:
        if problem.severity == "error":
            click.echo(paint_problem(problem))
    if not checked.is_valid:
        ctx.exit(2)
    files = dict(map(parse_sample, samples))
    simulation, start = Simulation(checked, rows, files), time.perf_counter()
    chosen = range(seeds) if seed is None else (seed,)
    results = list(_run_seeds(simulation, chosen, start + minutes * 60))
    failed = int(results[-1].name.split()[-1]) if results[-1].mismatches else None
    if failed is not None:
        click.echo(_format_failure(simulation.shrink_seed(failed), failed, file))
    click.echo(_format_summary(simulation, time.perf_counter() - start), err=True)
    click.echo(_format_coverage(simulation), err=True)
    if junit is not None:
        write_junit(junit, results)
    if failed is not None:
        ctx.exit(1)


def _run_seeds(
    simulation: Simulation, seeds: Sequence[int], until_s: float
) -> Iterator[CaseResult]:
    """Yield the results of seeds, up to the first that fails."""
    from headrace.cli.pipeline_tests.report import CaseResult

    is_shown = sys.stderr.isatty()
    for count, seed in enumerate(seeds):
        start = time.perf_counter()
        if start > until_s and count:
            break
        if is_shown:
            click.echo(f"\r{count} of {len(seeds)} seeds", nl=False, err=True)
        mismatches = simulation.run_seed(seed)
        seconds = time.perf_counter() - start
        yield CaseResult(simulation.tests.checked.file, f"seed {seed}", seconds, mismatches)
        if mismatches:
            break
    if is_shown:
        click.echo("\r\033[K", nl=False, err=True)


def _format_failure(failed: FailedSeed, seed: int, file: str) -> str:
    from headrace.cli.pipeline_tests.report import format_mismatch

    variant = f" ({failed.variant})" if failed.variant else ""
    lines = [f"{click.style('failed', fg='red', bold=True)}: seed {seed}{variant}"]
    for each in failed.mismatches:
        lines += [f"  {line}" for line in format_mismatch(each)]
    again = f"headrace simulate {file} --seed {seed}"
    if failed.test_seed is not None:
        again = "headrace test" + (f" --seed {failed.test_seed}" if failed.test_seed else "")
    return "\n".join(
        [*lines, f"as an entry of tests:, where {again} fails like this:", failed.entry]
    )


def _format_summary(simulation: Simulation, seconds: float) -> str:
    """`200 seeds: 21,401 rows, 310 crashes, 420 restarts, 51 savepoints, in 25.1 s`."""
    from headrace.core.errors.rendering import format_count

    counts = simulation.counts
    names = (("rows", "row"), ("crashes", "crash"), ("restarts", "restart"))
    parts = [_count(counts[key], word) for key, word in (*names, ("savepoints", "savepoint"))]
    seeds = format_count(counts["seeds"], "seed")
    return f"{seeds}: {', '.join(parts)}, in {seconds:.1f} s"


def _format_coverage(simulation: Simulation) -> str:
    """`compared with the reference interpreter: late, totals (5 of 9 seeds); between runs: n`."""
    seeds, known = simulation.counts["seeds"], simulation.interpreted
    with_answer = [
        name if known[name] == seeds else f"{name} ({known[name]} of {seeds} seeds)"
        for name in simulation.compared_streams
        if known[name]
    ]
    others = [name for name in simulation.compared_streams if not known[name]]
    parts = []
    if with_answer:
        parts.append(f"compared with the reference interpreter: {', '.join(with_answer)}")
    if others:
        parts.append(f"compared between runs only: {', '.join(others)}")
    return "; ".join(parts)


def _count(count: int, word: str) -> str:
    plural = f"{word}es" if word.endswith("sh") else f"{word}s"
    return f"{count:,} {word if count == 1 else plural}"
