"""A pipeline's file as commands take it: read, planned, and everything that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

from headrace.cli.failures import Refusal

if TYPE_CHECKING:
    from headrace.core.pipeline.load import Loaded
    from headrace.core.pipeline.model import Pipeline
    from headrace.core.plan.nodes import Plan
    from headrace.core.problems import Problem

F = TypeVar("F", bound=Callable[..., object])


def set_option(command: F) -> F:
    """`--set a.b=value`, which every command that reads a pipeline takes."""
    return click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override one value: --set settings.parallelism=4. May be repeated.",
    )(command)


def home_option(command: F) -> F:
    """`--home DIR`, which every command that knows jobs takes."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False),
        default=".headrace",
        envvar="HEADRACE_HOME",
        show_default=True,
        show_envvar=True,
        help="Where jobs keep what they go on from.",
    )(command)


def check_home(home: str) -> None:
    """Whether a folder that somebody named is there: the default one may be made later."""
    source = click.get_current_context().get_parameter_source("home")
    if source is not ParameterSource.DEFAULT and not os.path.isdir(home):
        raise Refusal(f"there is no folder {home}", "--home says where jobs are kept")


@dataclass(frozen=True, slots=True)
class Checked:
    """What is sound in a file; the plan, if that is everything; and all problems in file order."""

    file: str
    loaded: Loaded
    plan: Plan | None
    problems: Sequence[Problem]

    @property
    def pipeline(self) -> Pipeline:
        """What is sound."""
        return self.loaded.pipeline

    @property
    def ok(self) -> bool:
        """Whether nothing stands in the way of running it."""
        return all(problem.severity == "warning" for problem in self.problems)


def check(path: str, overrides: Sequence[str]) -> Checked:
    """Read and plan the pipeline of a file; raises nothing that is the user's to mend."""
    from headrace.connectors.registry import REGISTRY
    from headrace.core.pipeline.load import load
    from headrace.core.plan import build

    loaded = load(path, REGISTRY, overrides=overrides)
    plan, problems = build(loaded)
    return Checked(path, loaded, plan, problems)


def painted(problem: Problem) -> str:
    """The problem in a terminal's colours; `click.echo` leaves them out elsewhere."""
    from headrace.core.rendering import render

    return render(problem, _paint)


def _paint(text: str, role: str) -> str:
    return click.style(text, fg={"error": "red", "warning": "yellow"}.get(role), bold=True)
