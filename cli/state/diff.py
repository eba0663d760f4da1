"""`headrace state diff`: compares two snapshots, or a snapshot with a pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from headrace.cli.completion import JobName
from headrace.cli.group import WholeNumber
from headrace.cli.pipelines import check, home_option, painted, set_option
from headrace.cli.state.opened import Opened, json_option, opened, told

NOT_FIT = 3
"""The exit status if a pipeline cannot resume from the snapshot."""


@click.command()
@click.argument("what", type=JobName())
@click.argument("other", type=JobName())
@click.option(
    "--limit", type=WholeNumber(0), default=5, show_default=True, help="Number of examples."
)
@set_option
@json_option
@home_option
@told
def diff(
    what: str, other: str, limit: int, overrides: Sequence[str], as_json: bool, home: str
) -> None:
    """Compare two snapshots, or a snapshot with a pipeline.

    WHAT and OTHER are jobs (their newest checkpoints), JOB@N for checkpoint N, or folders of
    savepoints: rows that were added, removed and changed are listed. If OTHER is a pipeline's file,
    the command says whether the pipeline can resume from WHAT: the exit status is 0 if it can, 3 if
    not.
    """
    with opened(what, home) as before:
        if os.path.isfile(other):
            _fit(before, other, overrides, as_json=as_json)
            return
        with opened(other, home) as now:
            from headrace.cli.state.changes import changes, changes_said

            found = changes(before, now, limit)
            click.echo(_json(found) if as_json else changes_said(found))


def _fit(before: Opened, path: str, overrides: Sequence[str], *, as_json: bool) -> None:
    from headrace.cli.state.fit import fit, fit_said

    ctx = click.get_current_context()
    checked = check(path, overrides)
    for problem in checked.problems:
        click.echo(painted(problem), err=True)
    if checked.plan is None or not checked.ok:
        ctx.exit(2)
    found = fit(before.kept.document, checked.plan)
    if as_json:
        click.echo(_json({"title": before.kept.title, "pipeline": path, **found}))
    else:
        click.echo(fit_said(before.kept.title, path, found))
    ctx.exit(0 if found["fits"] else NOT_FIT)


def _json(found: Any) -> str:
    import json

    return json.dumps(found, indent=2, ensure_ascii=False)
