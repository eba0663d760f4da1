"""A pipeline's file as commands use it: loaded and planned, with all its problems."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

from headrace.cli.errors import Refusal
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.errors.problems import Problem
    from headrace.core.pipeline.loader import LoadedPipeline
    from headrace.core.pipeline.model import Pipeline
    from headrace.core.plan.nodes import Plan

F = TypeVar("F", bound=Callable[..., object])

DEFAULT_HOME = ".headrace"
HOME_VARIABLE = "HEADRACE_HOME"
"""The environment variable with the folder of jobs that is used without `--home`."""


def add_set_option(command: F) -> F:
    """Add `--set a.b=value`, an option of every command that reads a pipeline."""
    return click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override one value: --set settings.parallelism=4. May be repeated.",
    )(command)


def add_home_option(command: F) -> F:
    """Add `--home DIR`, an option of every command that works on jobs."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False),
        default=DEFAULT_HOME,
        envvar=HOME_VARIABLE,
        show_default=True,
        show_envvar=True,
        help="The folder of the jobs' checkpoints.",
    )(command)


def get_default_home() -> str:
    """Return the folder of jobs that commands use without `--home`."""
    return os.environ.get(HOME_VARIABLE) or DEFAULT_HOME


def check_home(home: str) -> None:
    """Check that a home given by the user exists; the default one may be created later."""
    source = click.get_current_context().get_parameter_source("home")
    if source is not ParameterSource.DEFAULT and not os.path.isdir(home):
        raise Refusal(f"there is no folder {home}", "--home names the folder of jobs")


@dataclass(frozen=True, slots=True)
class CheckedPipeline:
    """The valid parts of a file, the plan if all are valid, and all problems in file order."""

    file: str
    loaded_pipeline: LoadedPipeline
    plan: Plan | None
    problems: Sequence[Problem]

    @property
    def pipeline(self) -> Pipeline:
        """The valid parts of the pipeline."""
        return self.loaded_pipeline.pipeline

    @property
    def is_valid(self) -> bool:
        """Whether the pipeline can run: there are no errors."""
        return all(problem.severity == "warning" for problem in self.problems)

    def build_earlier_plans(self) -> Iterator[tuple[LoadedPipeline, Plan]]:
        """Yield the pipeline and its plan as of earlier versions, the newest first.

        State of such a plan can only be resumed with it. Plans whose state is the same as that of
        the next version are left out.
        """
        from headrace.core.pipeline.loader import PlanVersion
        from headrace.core.plan.fingerprint import build_fingerprints
        from headrace.core.plan.plan_assembly import build_plan

        later = self.plan
        for version in sorted(PlanVersion, reverse=True)[1:]:
            inputs = replace(self.loaded_pipeline.inputs, plan_version=version)
            loaded = replace(self.loaded_pipeline, inputs=inputs)
            plan, _ = build_plan(loaded)
            assert plan is not None and later is not None, "the pipeline is valid"
            if build_fingerprints(plan) != build_fingerprints(later):
                yield loaded, plan
            later = plan


def check_pipeline(
    path: str, overrides: Sequence[str], text_path: str | None = None
) -> CheckedPipeline:
    """Load and plan the pipeline of a file. User errors are problems, not exceptions.

    With `text_path`, its text is read from there.
    """
    from headrace.cli.process_limits import check_loading_limits

    check_loading_limits()
    from headrace.connectors.registry import REGISTRY
    from headrace.core.pipeline.loader import load_pipeline
    from headrace.core.plan.plan_assembly import build_plan

    loaded = load_pipeline(path, REGISTRY, overrides=overrides, text_path=text_path)
    plan, problems = build_plan(loaded)
    return CheckedPipeline(path, loaded, plan, problems)


def paint_problem(problem: Problem) -> str:
    """Return the problem in colours; `click.echo` drops them if it does not print to a terminal."""
    from headrace.core.errors.rendering import render_problem

    return render_problem(problem, _paint_text)


def _paint_text(text: str, role: str) -> str:
    return click.style(text, fg={"error": "red", "warning": "yellow"}.get(role), bold=True)
