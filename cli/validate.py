"""`headrace validate`: lists all problems of pipelines, and counts what was checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import PipelineFile
from headrace.cli.pipelines import Checked, check, painted, set_option

if TYPE_CHECKING:
    from headrace.core.connector import SinkSide, SourceSide
    from headrace.core.pipeline.model import Pipeline
    from headrace.core.problems import Problem


@click.command()
@click.argument("pipelines", type=PipelineFile(), nargs=-1, required=True, metavar="PIPELINE...")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option(
    "--connect",
    is_flag=True,
    help="Also check that topics, files and folders exist and can be accessed.",
)
@set_option
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
        one = _strictly(check(path, overrides)) if strict else check(path, overrides)
        checked.append(one)
        for problem in one.problems:
            click.echo(painted(_of_file(problem, path) if len(pipelines) > 1 else problem))
    click.echo(_summary(pipelines, checked), err=True)
    if not all(one.ok for one in checked):
        ctx.exit(2)
    if connect:
        ctx.exit(max(_connect(one) for one in checked))


def _connect(checked: Checked) -> int:
    """Check the external systems of a plan, and print the results; return the exit status."""
    from headrace.cli.connect import ask
    from headrace.core.rendering import printable

    assert checked.plan is not None
    found = ask(checked.plan, checked.loaded.folder)
    for one in found:
        hint = f"\n      {one.hint}" if one.status and one.hint else ""
        text = f"{one.part}: {printable(one.text)}{hint}"
        click.echo(click.style(text, fg="red") if one.status else text)
    return max((one.status for one in found), default=0)


def _of_file(problem: Problem, path: str) -> Problem:
    """Add the file's name to a problem of a command-line argument, which applies to all files."""
    from headrace.core.pipeline.reading import shown_path

    place = problem.place
    if place is None or place.line or not place.text:
        return problem
    return replace(problem, place=replace(place, file=f"{shown_path(path)}: {place.file}"))


def _strictly(checked: Checked) -> Checked:
    problems = [replace(problem, severity="error") for problem in checked.problems]
    return replace(checked, problems=problems)


def _summary(pipelines: Sequence[str], checked: Sequence[Checked]) -> str:
    """`3 files: 1 error, 2 warnings; checked 2 sources, 4 steps, 9 expressions, 3 sinks`."""
    from headrace.core.pipeline.reading import shown_path
    from headrace.core.rendering import count, printable, tally

    what = (
        printable(shown_path(pipelines[0]))
        if len(pipelines) == 1
        else count(len(pipelines), "file")
    )
    problems = tally(problem for one in checked for problem in one.problems)
    return f"{what}: {problems}; checked {_counts([one.pipeline for one in checked])}"


def _counts(pipelines: Iterable[Pipeline]) -> str:
    from headrace.core.rendering import count

    pipelines = list(pipelines)
    numbers = {
        "source": sum(len(pipeline.sources) for pipeline in pipelines),
        "step": sum(len(pipeline.steps) for pipeline in pipelines),
        "expression": sum(_expressions(pipeline) for pipeline in pipelines),
        "sink": sum(len(pipeline.sinks) for pipeline in pipelines),
    }
    return ", ".join(count(number, noun) for noun, number in numbers.items())


def _expressions(pipeline: Pipeline) -> int:
    """Count the expressions in the document."""
    number = 0
    for step in pipeline.steps.values():
        keys = (step.key, step.dedup.key if step.dedup else None)
        clauses = (step.with_, step.select, step.route, step.aggregate, *keys)
        assigned = [one for clause in clauses for one in clause or ()]
        number += sum(one.expression is not None for one in assigned)
        number += sum(each is not None for each in (step.where, step.explode, step.having))
        number += len(step.top.by) if step.top else 0
    for source in pipeline.sources.values():
        number += _in_options(source.connector.source, source.options)
    for sink in pipeline.sinks.values():
        number += _in_options(sink.connector.sink, sink.options)
    return number


def _in_options(side: SourceSide | SinkSide | None, options: object) -> int:
    values = [getattr(options, declared.option) for declared in side.expressions] if side else []
    return sum(len(value) if isinstance(value, tuple) else value is not None for value in values)
