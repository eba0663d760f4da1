"""`headrace validate`: lists all problems of pipelines, and counts what was checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import PipelineFile
from headrace.cli.garbage_collection import suspend_garbage_collection
from headrace.cli.pipeline_file import (
    CheckedPipeline,
    add_set_option,
    check_pipeline,
    paint_problem,
)

if TYPE_CHECKING:
    from headrace.core.errors.problems import Problem
    from headrace.core.pipeline.connector_spec import SinkSpec, SourceSpec
    from headrace.core.pipeline.model import Pipeline


@click.command()
@click.argument("pipelines", type=PipelineFile(), nargs=-1, required=True, metavar="PIPELINE...")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option(
    "--connect",
    is_flag=True,
    help="Also check that topics, files and folders exist and can be accessed.",
)
@add_set_option
@click.pass_context
def validate(
    ctx: click.Context,
    pipelines: Sequence[str],
    strict: bool,
    connect: bool,
    overrides: Sequence[str],
) -> None:
    """List all problems of pipelines.

    Problems are in file order; nothing is run and nothing is written. The exit status is 2 if there
    is an error. With --connect, brokers and disks are checked as well, which may take some seconds;
    nothing is changed there, and the exit status is that of a run started now.
    """
    checked = []
    for path in pipelines:
        with suspend_garbage_collection():
            one = _check_with_tests(path, overrides)
        if strict:
            one = _treat_warnings_as_errors(one)
        checked.append(one)
        for problem in one.problems:
            click.echo(
                paint_problem(_add_file_name(problem, path) if len(pipelines) > 1 else problem)
            )
    click.echo(_format_summary(pipelines, checked), err=True)
    if not all(one.is_valid for one in checked):
        ctx.exit(2)
    if connect:
        ctx.exit(max(_check_connections(one) for one in checked))


def _check_with_tests(path: str, overrides: Sequence[str]) -> CheckedPipeline:
    """Check a pipeline with the tests and invariants of its files, or a test file."""
    from headrace.core.pipeline.pipeline_tests.tests_loader import find_test_file, is_test_file

    if is_test_file(Path(path)):
        from headrace.cli.pipeline_tests.checked_tests import check_suite, find_suites

        (suite,) = find_suites((path,))
        found = check_suite(suite, overrides)
        return replace(found.checked, problems=found.problems)
    checked = check_pipeline(path, overrides)
    loaded = checked.loaded_pipeline
    if not (loaded.tests or loaded.invariants or find_test_file(Path(path))):
        return checked
    from headrace.cli.pipeline_tests.checked_tests import check_tests, read_files_beside

    return replace(checked, problems=check_tests(checked, read_files_beside(path)).problems)


def _check_connections(checked: CheckedPipeline) -> int:
    """Check the external systems of a plan, and print the results; return the exit status."""
    from headrace.cli.connection_check import check_connections
    from headrace.core.errors.rendering import escape_unprintable

    assert checked.plan is not None
    found = check_connections(checked.plan, checked.loaded_pipeline.folder)
    for one in found:
        hint = f"\n      {one.hint}" if one.status and one.hint else ""
        text = f"{one.part}: {escape_unprintable(one.text)}{hint}"
        click.echo(click.style(text, fg="red") if one.status else text)
    return max((one.status for one in found), default=0)


def _add_file_name(problem: Problem, path: str) -> Problem:
    """Add the file's name to a problem of a command-line argument, which applies to all files."""
    from headrace.core.pipeline.yaml_document.source_file import format_path

    place = problem.location
    if place is None or place.line or not place.text:
        return problem
    return replace(problem, location=replace(place, file=f"{format_path(path)}: {place.file}"))


def _treat_warnings_as_errors(checked: CheckedPipeline) -> CheckedPipeline:
    problems = [replace(problem, severity="error") for problem in checked.problems]
    return replace(checked, problems=problems)


def _format_summary(pipelines: Sequence[str], checked: Sequence[CheckedPipeline]) -> str:
    """`3 files: 1 error, 2 warnings; checked 2 sources, 4 steps, 9 expressions, 3 sinks`."""
    from headrace.core.errors.rendering import (
        escape_unprintable,
        format_count,
        format_problem_counts,
    )
    from headrace.core.pipeline.yaml_document.source_file import format_path

    what = (
        escape_unprintable(format_path(pipelines[0]))
        if len(pipelines) == 1
        else format_count(len(pipelines), "file")
    )
    problems = format_problem_counts(problem for one in checked for problem in one.problems)
    return f"{what}: {problems}; checked {_format_counts([one.pipeline for one in checked])}"


def _format_counts(pipelines: Iterable[Pipeline]) -> str:
    from headrace.core.errors.rendering import format_count
    from headrace.core.pipeline.row_source import remove_row_source

    pipelines = list(map(remove_row_source, pipelines))
    numbers = {
        "source": sum(len(pipeline.sources) for pipeline in pipelines),
        "step": sum(len(pipeline.steps) for pipeline in pipelines),
        "expression": sum(_count_expressions(pipeline) for pipeline in pipelines),
        "sink": sum(len(pipeline.sinks) for pipeline in pipelines),
    }
    return ", ".join(format_count(number, noun) for noun, number in numbers.items())


def _count_expressions(pipeline: Pipeline) -> int:
    """Count the expressions in the document."""
    number = 0
    for step in pipeline.steps.values():
        keys = (step.key, step.dedup.key if step.dedup else None)
        columns = (step.with_, step.extend, step.select, step.aggregate, step.over)
        match = (step.match.define, step.match.emit) if step.match else ()
        clauses = (*columns, *match, step.route, *keys)
        assigned = [one for clause in clauses for one in clause or ()]
        number += sum(one.expression is not None for one in assigned)
        number += sum(
            each is not None for each in (step.where, step.explode, step.having, step.event_time)
        )
        number += len(step.top.by) if step.top else 0
    for source in pipeline.sources.values():
        number += _count_option_expressions(source.connector.source, source.options)
    for sink in pipeline.sinks.values():
        number += _count_option_expressions(sink.connector.sink, sink.options)
    return number


def _count_option_expressions(side: SourceSpec | SinkSpec | None, options: object) -> int:
    values = [getattr(options, declared.option) for declared in side.expressions] if side else []
    return sum(len(value) if isinstance(value, tuple) else value is not None for value in values)
