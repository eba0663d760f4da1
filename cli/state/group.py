"""The group of commands `headrace state`."""

from __future__ import annotations

import click

from headrace.cli.group import CommandGroup
from headrace.cli.state.diff import diff
from headrace.cli.state.export import export
from headrace.cli.state.ls import ls
from headrace.cli.state.query import query
from headrace.cli.state.show import show


@click.group(cls=CommandGroup)
def state() -> None:
    """Inspect checkpoints and savepoints.

    WHAT is JOB for a job's newest checkpoint, JOB@N for its checkpoint N, or the folder of a
    savepoint. JOB is the name of a pipeline; --home is the folder of its checkpoints.
    """


for command in (ls, show, query, diff, export):
    state.add_command(command)
