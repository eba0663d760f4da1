"""`headrace state diff`: compares two snapshots, or a snapshot with a pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from headrace.cli.completion import JobName
from headrace.cli.group import WholeNumber
from headrace.cli.pipelines import add_home_option, add_set_option, check_pipeline, paint_problem
from headrace.cli.state.opened import (
    OpenSnapshot,
    add_json_option,
    open_snapshot,
    report_snapshot_errors,
)

INCOMPATIBLE_STATUS = 3
"""The exit status if a pipeline cannot resume from the snapshot."""


@click.command()
@click.argument("what", type=JobName())
@click.argument("other", type=JobName())
@click.option(
    "--limit", type=WholeNumber(0), default=5, show_default=True, help="Number of examples."
)
@add_set_option
@add_json_option
@add_home_option
@report_snapshot_errors
def diff(
    what: str, other: str, limit: int, overrides: Sequence[str], as_json: bool, home: str
) -> None:
    """Compare two snapshots, or a snapshot with a pipeline.

    WHAT and OTHER are jobs (their newest checkpoints), JOB@N for checkpoint N, or folders of
    savepoints: rows that were added, removed and changed are listed. If OTHER is a pipeline's file,
    the command says whether the pipeline can resume from WHAT: the exit status is 0 if it can, 3 if
    not.
    """
    with open_snapshot(what, home) as before:
        if os.path.isfile(other):
            _check_pipeline(before, other, overrides, as_json=as_json)
            return
        with open_snapshot(other, home) as now:
            from headrace.cli.state.changes import compare_snapshots, format_comparison

            found = compare_snapshots(before, now, limit)
            click.echo(_format_json(found) if as_json else format_comparison(found))


def _check_pipeline(
    before: OpenSnapshot, path: str, overrides: Sequence[str], *, as_json: bool
) -> None:
    from headrace.cli.state.fit import check_compatibility, format_compatibility

    ctx = click.get_current_context()
    checked = check_pipeline(path, overrides)
    for problem in checked.problems:
        click.echo(paint_problem(problem), err=True)
    if checked.plan is None or not checked.is_valid:
        ctx.exit(2)
    found = check_compatibility(before.snapshot.document, checked.plan)
    if as_json:
        click.echo(_format_json({"title": before.snapshot.title, "pipeline": path, **found}))
    else:
        click.echo(format_compatibility(before.snapshot.title, path, found))
    ctx.exit(0 if found["fits"] else INCOMPATIBLE_STATUS)


def _format_json(found: Any) -> str:
    import json

    return json.dumps(found, indent=2, ensure_ascii=False)
