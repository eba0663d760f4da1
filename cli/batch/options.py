"""Options of a batch, and the options of `run` that a batch rejects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., object])

_NO_CHECKPOINTS = "a batch run takes no checkpoints: it is written completely, or not at all"
REJECTED_OPTIONS = {
    "parallelism": "Spark divides the work: --master local[N] sets how many cores",
    "workers": "Spark divides the work: --master local[N] sets how many cores",
    "limit": "a batch run reads all rows",
    "from_checkpoint": _NO_CHECKPOINTS,
    "from_savepoint": _NO_CHECKPOINTS,
    "reset_state": _NO_CHECKPOINTS,
    "allow_lost_state": _NO_CHECKPOINTS,
    "resume_drained": _NO_CHECKPOINTS,
    "take_over": _NO_CHECKPOINTS,
    "http": "metrics and health are served only for streams",
    "otlp": "metrics and traces are sent only for streams",
}


def add_batch_options(what: str) -> Callable[[F], F]:
    """Add `--batch`, with its help text, and the options that say where and how Spark runs."""
    options = (
        click.option(
            "--conf",
            metavar="KEY=VALUE",
            multiple=True,
            help="With --batch: a Spark setting, such as spark.driver.memory=4g. May be repeated.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="With --batch: where Spark runs: local[*] (the default), "
            "spark://HOST:PORT, yarn or k8s://HOST:PORT.",
        ),
        click.option(
            "--batch",
            is_flag=True,
            help=f"{what} Needs `pip install 'headrace[batch]'`.",
        ),
    )

    def with_options(command: F) -> F:
        for option in options:
            command = option(command)
        return command

    return with_options


def check_options(ctx: click.Context) -> None:
    """Check that the given options can be combined. Raises UsageError."""
    names = [name for name in ctx.params if _is_given(ctx, name)]
    if "batch" in names:
        for name in names:
            if why := REJECTED_OPTIONS.get(name):
                message = f"{_format_option(name)} cannot be combined with --batch: {why}"
                raise click.UsageError(message, ctx)
        return
    for name in ("master", "conf"):
        if name in names:
            raise click.UsageError(f"--{name} is for Spark: it needs --batch", ctx)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _format_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
