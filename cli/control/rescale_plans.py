"""Plans of a running pipeline for another parallelism, built from the document loaded at the start.

The file and its environment variables may have changed since: a rescale changes the numbers of
subtasks, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.cli.control.http_messages import RequestError
from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.loader import LoadedPipeline
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.parallelism import set_parallelism
from headrace.core.plan import Plan, build_plan


@dataclass(frozen=True, slots=True)
class RescalePlans:
    """Builds plans of the running pipeline at another parallelism."""

    loaded_pipeline: LoadedPipeline

    def replan(
        self, parallelism: int | None, parts: Mapping[str, int]
    ) -> tuple[RescalePlans, Plan]:
        """Return the plan after a rescale; a step's own parallelism stays unless the step is named.

        Raises RequestError.
        """
        pipeline = self.loaded_pipeline.pipeline
        groups = pipeline.settings.key_groups
        for name, wanted in (("parallelism", parallelism), *parts.items()):
            if wanted is not None and not 1 <= wanted <= groups:
                message = f"{name}: wanted a whole number from 1 to {groups}, got {wanted}"
                hint = f"the job has {groups} key groups; the number cannot change"
                raise _parallelism_error(message, hint)
        for name in parts:
            _check_own_parallelism(pipeline, name)
        loaded = replace(
            self.loaded_pipeline, pipeline=set_parallelism(pipeline, parallelism, parts)
        )
        plan, problems = build_plan(loaded)
        if plan is None:
            wrong = next(each for each in problems if each.severity == "error")
            raise _parallelism_error(wrong.message, wrong.hint)
        return RescalePlans(loaded), plan


def count_subtasks(plan: Plan) -> dict[str, int]:
    """Return the number of subtasks of each part."""
    return {part.name: part.parallelism for part in plan}


def find_changed_parallelism(before: Plan, after: Plan) -> dict[str, int]:
    """Return the new number of subtasks of parts that change."""
    was = count_subtasks(before)
    return {name: now for name, now in count_subtasks(after).items() if was[name] != now}


def _check_own_parallelism(pipeline: Pipeline, name: str) -> None:
    """Check that a part can have its own parallelism. Raises RequestError."""
    own = [*pipeline.steps, *pipeline.sinks]
    if name in pipeline.sources:
        message = f'"{name}" is a source, which has the parallelism of the job'
        raise _parallelism_error(message, f"there are {', '.join(own)}")
    if name not in own:
        hint = suggest_name(name, own) or f"there are {', '.join(own)}"
        raise _parallelism_error(f'there is no step or sink "{name}"', hint)


def _parallelism_error(message: str, hint: str) -> RequestError:
    return RequestError(400, "wrong_parallelism", message, hint)
