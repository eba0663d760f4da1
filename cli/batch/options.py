"""The options of a batch, and those of `run` that say nothing to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., object])

_NO_CHECKPOINTS = "a batch takes no checkpoints: it is done whole, or not at all"
NOT_OF_A_BATCH = {
    "parallelism": "Spark divides the work: --master local[N] says among how many",
    "limit": "a batch reads all there is",
    "from_checkpoint": _NO_CHECKPOINTS,
    "from_savepoint": _NO_CHECKPOINTS,
    "reset_state": _NO_CHECKPOINTS,
    "allow_lost_state": _NO_CHECKPOINTS,
    "resume_drained": _NO_CHECKPOINTS,
    "take_over": _NO_CHECKPOINTS,
    "http": "it is of a stream that metrics and health are served",
}


def batch_options(what: str) -> Callable[[F], F]:
    """`--batch`, which does what is said of it, and where Spark runs."""
    options = (
        click.option(
            "--conf",
            metavar="KEY=VALUE",
            multiple=True,
            help="With --batch: a setting of Spark, as spark.driver.memory=4g. May be repeated.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="With --batch: where Spark runs: local[*] (as it is if nothing is said), "
            "spark://HOST:PORT, yarn or k8s://HOST:PORT.",
        ),
        click.option(
            "--batch",
            is_flag=True,
            help=f"{what} `pip install 'headrace[batch]'`.",
        ),
    )

    def with_options(command: F) -> F:
        for option in options:
            command = option(command)
        return command

    return with_options


def check_options(ctx: click.Context) -> None:
    """Whether what was given goes together. Raises UsageError."""
    given = [name for name in ctx.params if _is_given(ctx, name)]
    if "batch" in given:
        for name in given:
            if why := NOT_OF_A_BATCH.get(name):
                raise click.UsageError(f"{_option(name)} does not go with --batch: {why}", ctx)
        return
    for name in ("master", "conf"):
        if name in given:
            raise click.UsageError(f"--{name} is for Spark: it wants --batch", ctx)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
