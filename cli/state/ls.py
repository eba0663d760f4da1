"""`headrace state ls`: lists checkpoints and savepoints, or the contents of one."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.completion import JobName
from headrace.cli.pipelines import check_home, home_option
from headrace.cli.state.opened import Opened, json_option, opened, told


@click.command()
@click.argument("what", type=JobName(), required=False)
@click.option("--groups", is_flag=True, help="Also show the size of each key group.")
@json_option
@home_option
@told
def ls(what: str | None, groups: bool, as_json: bool, home: str) -> None:
    """List checkpoints and savepoints, or the contents of one.

    WHAT is a job (its newest checkpoint), JOB@N for its checkpoint N, or the folder of a
    savepoint. Without WHAT all jobs of the home are listed.
    """
    if what is None:
        _list_all(home, as_json=as_json)
        return
    with opened(what, home) as kept:
        _list_one(kept, groups=groups, as_json=as_json)


def _list_all(home: str, *, as_json: bool) -> None:
    from headrace.cli.state.listing import all_said, listed

    check_home(home)
    found = listed(home)
    if as_json:
        _print_json([one.document() for one in found])
    elif found:
        click.echo(all_said(found))
    else:
        click.echo(f"there are no checkpoints or savepoints in {home}", err=True)


def _list_one(kept: Opened, *, groups: bool, as_json: bool) -> None:
    from headrace.cli.state.contents import contents, contents_said

    found = contents(kept, groups=groups)
    if as_json:
        _print_json(found)
    else:
        click.echo(contents_said(kept, found))


def _print_json(found: Any) -> None:
    import json

    click.echo(json.dumps(found, indent=2, ensure_ascii=False))
