"""`headrace state ls`: lists checkpoints and savepoints, or the contents of one."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.completion import JobName
from headrace.cli.pipelines import add_home_option, check_home
from headrace.cli.state.opened import (
    OpenSnapshot,
    add_json_option,
    open_snapshot,
    report_snapshot_errors,
)


@click.command()
@click.argument("what", type=JobName(), required=False)
@click.option("--groups", is_flag=True, help="Also show the size of each key group.")
@add_json_option
@add_home_option
@report_snapshot_errors
def ls(what: str | None, groups: bool, as_json: bool, home: str) -> None:
    """List checkpoints and savepoints, or the contents of one.

    WHAT is a job (its newest checkpoint), JOB@N for its checkpoint N, or the folder of a
    savepoint. Without WHAT all jobs of the home are listed.
    """
    if what is None:
        _print_all(home, as_json=as_json)
        return
    with open_snapshot(what, home) as kept:
        _print_one(kept, groups=groups, as_json=as_json)


def _print_all(home: str, *, as_json: bool) -> None:
    from headrace.cli.state.listing import format_snapshots, list_snapshots

    check_home(home)
    found = list_snapshots(home)
    if as_json:
        _print_json([one.build_document() for one in found])
    elif found:
        click.echo(format_snapshots(found))
    else:
        click.echo(f"there are no checkpoints or savepoints in {home}", err=True)


def _print_one(kept: OpenSnapshot, *, groups: bool, as_json: bool) -> None:
    from headrace.cli.state.contents import describe_contents, format_contents

    found = describe_contents(kept, groups=groups)
    if as_json:
        _print_json(found)
    else:
        click.echo(format_contents(kept, found))


def _print_json(found: Any) -> None:
    import json

    click.echo(json.dumps(found, indent=2, ensure_ascii=False))
