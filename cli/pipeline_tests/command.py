"""`headrace test`: runs the tests of pipelines in virtual time, and prints what differs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import PipelineFile
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import add_set_option, paint_problem

if TYPE_CHECKING:
    from headrace.cli.pipeline_tests.case_run import CaseRunner
    from headrace.cli.pipeline_tests.checked_tests import CheckedTests
    from headrace.cli.pipeline_tests.report import CaseResult
    from headrace.core.testing.bound_tests import BoundTest

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
    overrides: Sequence[str],
) -> None:
    """Run the tests of pipelines.

    FILES are pipelines with `tests:`, NAME.test.yaml, or folders of them; by default this folder.
    Nothing outside is read or written: the tests give the rows of sources and lookup tables, and
    time is virtual. Each test runs at parallelism 1 and 3, and with its rows cut at random. The
    exit status is 1 if a test fails, and 2 if a pipeline or a test has a mistake.
    """
    from headrace.cli.pipeline_tests.checked_tests import check_suite, find_suites, select_tests
    from headrace.cli.pipeline_tests.file_update import write_edits
    from headrace.cli.pipeline_tests.report import format_result, format_summary, write_junit

    checked = [check_suite(suite, overrides) for suite in find_suites(files or (".",))]
    for problem in (problem for each in checked for problem in each.problems):
        if problem.severity == "error":
            click.echo(paint_problem(problem))
    if not all(each.is_valid for each in checked):
        ctx.exit(2)
    if not any(each.tests for each in checked):
        raise Refusal("there are no tests", NO_TESTS_HINT)
    start, results = time.perf_counter(), list["CaseResult"]()
    for suite, tests in zip(checked, select_tests(checked, word), strict=True):
        runner = _build_runner(suite, tests, seed, parallelism)
        for each in tests:
            result = runner.fix(each) if fix else runner.run(each)
            results.append(result)
            if result.outcome != "passed":
                click.echo(format_result(result))
    write_edits(edit for result in results for edit in result.edits)
    click.echo(format_summary(results, time.perf_counter() - start), err=True)
    if junit is not None:
        write_junit(junit, results)
    if any(result.mismatches for result in results):
        ctx.exit(1)


def _build_runner(
    suite: CheckedTests, tests: Sequence[BoundTest], seed: int, parallelism: int | None
) -> CaseRunner:
    """Return what runs the tests of one pipeline."""
    from headrace.cli.pipeline_tests.case_run import CaseRunner
    from headrace.cli.pipeline_tests.isolated_plan import Planner
    from headrace.cli.pipeline_tests.runner import list_variants

    loaded = suite.checked.loaded_pipeline
    streams = frozenset().union(*(test.streams for test in tests))
    planner = Planner(loaded.inputs, sorted(streams))
    variants = list_variants(loaded.pipeline.settings.key_groups, seed, parallelism)
    return CaseRunner(suite.checked.file, planner, variants, seed)
