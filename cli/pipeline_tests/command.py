"""`headrace test`: runs the tests of pipelines in virtual time, and prints what differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import PipelineFile
from headrace.cli.errors import Refusal
from headrace.cli.garbage_collection import suspend_garbage_collection
from headrace.cli.pipeline_file import add_home_option, add_set_option, check_home, paint_problem
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.cli.batch.tested_batch import SparkTests
    from headrace.cli.pipeline_tests.case_run import CaseRunner
    from headrace.cli.pipeline_tests.checked_tests import CheckedTests, Suite
    from headrace.cli.pipeline_tests.report import CaseResult
    from headrace.core.testing.bound_tests import BoundTest

OnSpark: TypeAlias = Literal["no", "only", "also"]
"""Whether tests run on Spark."""
NO_TESTS_HINT = "tests stand in the pipeline's file under tests:, or in NAME.test.yaml beside it"


@click.command()
@click.argument("files", type=PipelineFile(), nargs=-1, metavar="[FILES]...")
@click.option("-k", "word", metavar="WORD", default="", help="Only tests with WORD in their names.")
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False), help="Write JUnit XML.")
@click.option(
    "--seed",
    metavar="N",
    type=WholeNumber(min=0),
    default=0,
    show_default=True,
    help="Draws where rows are cut, and the order of tasks.",
)
@click.option(
    "--parallelism",
    metavar="N",
    type=WholeNumber(min=1, max=64),
    help="Run each test once, at this parallelism.",
)
@click.option("--fix", is_flag=True, help="Write the rows that came into expectations that fail.")
@click.option("--watch", is_flag=True, help="Run again when a file changes, until Ctrl-C.")
@click.option(
    "--create",
    metavar="N",
    type=WholeNumber(min=1, max=1000),
    help="Write a test of the first N rows of each source.",
)
@click.option(
    "--job",
    "follows_job",
    is_flag=True,
    help="With --create: of the rows after the last checkpoint of the job.",
)
@add_home_option
@click.option("--batch", "is_batch", is_flag=True, help="Run the tests on Spark.")
@click.option("--both", "is_both", is_flag=True, help="Run each test here and on Spark.")
@add_set_option
@click.pass_context
def test(
    ctx: click.Context,
    files: Sequence[str],
    word: str,
    junit: str | None,
    seed: int,
    parallelism: int | None,
    fix: bool,
    watch: bool,
    create: int | None,
    follows_job: bool,
    home: str,
    is_batch: bool,
    is_both: bool,
    overrides: Sequence[str],
) -> None:
    """Run the tests of pipelines.

    FILES are pipelines with `tests:`, NAME.test.yaml, or folders of them; by default this folder.
    Nothing outside is read or written: the tests give the rows of sources and lookup tables, and
    time is virtual. Each test runs at parallelism 1 and 3, and with its rows cut at random. The
    exit status is 1 if a test fails, and 2 if a pipeline or a test has a mistake.
    """
    if fix and (is_batch or is_both):
        raise click.UsageError("--fix does not go with --batch or --both", ctx)
    on_spark: OnSpark = "also" if is_both else "only" if is_batch else "no"
    options = SuiteOptions(
        tuple(files), word, junit, seed, parallelism, fix, on_spark, tuple(overrides)
    )
    with suspend_garbage_collection():
        import headrace.cli.pipeline_tests.case_run
        import headrace.cli.pipeline_tests.checked_tests  # noqa: F401
    if create is not None:
        _check_create(ctx)
        if follows_job:
            check_home(home)
        ctx.exit(_create_test(options, create, home if follows_job else None))
    if follows_job:
        raise click.UsageError("--job goes with --create", ctx)
    if watch:
        from headrace.cli.pipeline_tests.watch import watch_tests

        watch_tests(options.files or (".",), lambda: _run_tests(options))
    ctx.exit(_run_tests(options))


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """The options of the command."""

    files: Sequence[str]
    word: str
    junit: str | None
    seed: int
    parallelism: int | None
    fix: bool
    on_spark: OnSpark
    overrides: Sequence[str]


def _run_tests(options: SuiteOptions) -> int:
    """Run the tests, print those that fail, and return the exit status. Raises Refusal."""
    from headrace.cli.pipeline_tests.checked_tests import find_suites, select_tests
    from headrace.cli.pipeline_tests.file_update import write_edits
    from headrace.cli.pipeline_tests.report import format_result, format_summary
    from headrace.cli.process_limits import limit_polars_threads

    limit_polars_threads(1)
    if options.junit is not None:
        from headrace.cli.pipeline_tests.junit import check_junit_path

        check_junit_path(options.junit)
    with suspend_garbage_collection():
        checked = _check_suites(find_suites(options.files or (".",)), options)
    if checked is None:
        return 2
    if not any(each.tests for each in checked):
        raise Refusal("there are no tests", NO_TESTS_HINT)
    start, results = time.perf_counter(), list["CaseResult"]()
    selected = select_tests(checked, options.word)
    with _open_spark(options) as spark:
        for suite, tests in zip(checked, selected, strict=True):
            streams = frozenset().union(*(test.streams for test in tests))
            runner = _build_runner(suite, streams, options)
            run: Callable[[BoundTest], CaseResult] = runner.fix if options.fix else runner.run
            if spark is not None:
                is_also_here = options.on_spark == "also"
                run = spark.build_run(runner, suite.checked.pipeline, is_also_here=is_also_here)
            for result in map(run, tests):
                results.append(result)
                if result.outcome != "passed" or result.skipped:
                    click.echo(format_result(result))
    write_edits(edit for result in results for edit in result.edits)
    click.echo(format_summary(results, time.perf_counter() - start), err=True)
    if options.junit is not None:
        from headrace.cli.pipeline_tests.junit import write_junit

        write_junit(options.junit, results)
    return 1 if any(result.mismatches for result in results) else 0


@contextmanager
def _open_spark(options: SuiteOptions) -> Iterator[SparkTests | None]:
    """Run tests on Spark, if that is wanted. Raises Refusal."""
    if options.on_spark == "no":
        yield None
        return
    from headrace.cli.batch.tested_batch import open_spark_tests

    with open_spark_tests() as spark:
        yield spark


def _check_suites(suites: Sequence[Suite], options: SuiteOptions) -> Sequence[CheckedTests] | None:
    """Check pipelines and their tests; print the errors, and return None if there are any."""
    from headrace.cli.pipeline_tests.checked_tests import check_suite

    checked = [check_suite(suite, options.overrides) for suite in suites]
    for each in checked:
        for problem in each.problems:
            if problem.severity == "error" or problem in each.warnings:
                click.echo(paint_problem(problem))
    return checked if all(each.is_valid for each in checked) else None


def _check_create(ctx: click.Context) -> None:
    """Check the options that go with `--create`."""
    for name in ("fix", "word", "junit", "watch", "is_batch", "is_both"):
        if ctx.params[name]:
            option = {"word": "-k"}.get(name, f"--{name.removeprefix('is_')}")
            raise click.UsageError(f"{option} does not go with --create", ctx)
    if len(ctx.params["files"]) != 1:
        raise click.UsageError("--create wants one pipeline or test file", ctx)


def _create_test(options: SuiteOptions, count: int, root: str | None) -> int:
    """Write a test of the first rows of a pipeline, and return the exit status. Raises Refusal.

    With a folder of jobs, these are the rows after the last checkpoint of the pipeline's job.
    """
    from headrace.cli.control.job_lookup import find_home
    from headrace.cli.pipeline_tests.checked_tests import find_suites
    from headrace.cli.pipeline_tests.new_test import (
        create_test,
        list_lookup_tables,
        read_newest_checkpoint,
    )
    from headrace.cli.pipeline_tests.report import format_created

    suites = find_suites(options.files)
    if len(suites) != 1:
        raise Refusal("--create wants one pipeline", "name its file")
    checked = _check_suites(suites, options)
    if checked is None:
        return 2
    plan = checked[0].checked.plan
    assert plan is not None, "the pipeline is valid"
    streams = frozenset(str(each.from_) for each in checked[0].checked.pipeline.sinks.values())
    runner = _build_runner(checked[0], streams, options)
    restored = None
    if root is not None:
        restored = read_newest_checkpoint(find_home(str(plan.name), root), plan)
    result = create_test(suites[0], checked[0], count, runner.fix, restored)
    click.echo(format_created(result))
    for step in list_lookup_tables(plan):
        click.echo(f'write the rows of the table of "{step}", then --fix the test', err=True)
    return 1 if result.mismatches else 0


def _build_runner(
    suite: CheckedTests, streams: Collection[str], options: SuiteOptions
) -> CaseRunner:
    """Return what runs the tests of one pipeline, which expect rows of these streams."""
    from headrace.cli.pipeline_tests.case_run import CaseRunner
    from headrace.cli.pipeline_tests.isolated_plan import Planner
    from headrace.cli.pipeline_tests.runner import list_variants

    loaded = suite.checked.loaded_pipeline
    planner = Planner(loaded, sorted(streams))
    key_groups = loaded.pipeline.settings.key_groups
    variants = list_variants(key_groups, options.seed, options.parallelism)
    return CaseRunner(suite.checked.file, planner, variants, options.seed)
