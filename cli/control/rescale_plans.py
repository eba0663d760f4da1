"""Plans of a running pipeline with other numbers of subtasks and workers.

They are built from the document loaded at the start, because the file and its environment variables
may have changed since: a rescale changes these numbers, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.cli.control.http_messages import RequestError
from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.loader import LoadedPipeline
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.parallelism import set_parallelism, set_workers
from headrace.core.pipeline.settings import MAX_WORKERS
from headrace.core.plan.nodes import Plan
from headrace.core.plan.placement import count_usable_workers
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RescalePlans:
    """Builds plans of the running pipeline at another parallelism, or for other workers."""

    loaded_pipeline: LoadedPipeline

    def count_workers(self, plan: Plan) -> int:
        """Return the number of workers that run a plan."""
        return min(self.loaded_pipeline.pipeline.settings.workers, count_usable_workers(plan))

    def replan(
        self, parallelism: int | None, parts: Mapping[str, int], workers: int | None = None
    ) -> tuple[RescalePlans, Plan]:
        """Return the plan after a rescale; a step's own parallelism stays unless the step is named.

        The parallelism of the job follows the workers unless it was set. Raises RequestError.
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
        if workers is not None:
            _check_worker_range(workers)
            pipeline = set_workers(pipeline, workers)
        pipeline = set_parallelism(pipeline, parallelism, parts)
        loaded = replace(self.loaded_pipeline, pipeline=pipeline)
        plan, problems = build_plan(loaded)
        if plan is None:
            wrong = next(each for each in problems if each.severity == "error")
            raise _parallelism_error(wrong.message, wrong.hint)
        if workers is not None:
            _check_idle_workers(plan, workers)
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


def _check_worker_range(workers: int) -> None:
    """Check that there may be this number of workers. Raises RequestError."""
    if not 1 <= workers <= MAX_WORKERS:
        message = f"workers: wanted a whole number from 1 to {MAX_WORKERS}, got {workers}"
        raise _workers_error(message, "1 runs all subtasks in the process of the job")


def _check_idle_workers(plan: Plan, workers: int) -> None:
    """Check that each worker has subtasks to run. Raises RequestError."""
    used = count_usable_workers(plan)
    if used < workers:
        message = f"workers: only {used} of {workers} would have subtasks"
        most = max(count_subtasks(plan).values())
        hint = f"no part has more than {most}; --parallelism sets how many"
        if most == plan.key_groups:
            hint = f"the job has {most} key groups; the number cannot change"
        raise _workers_error(message, hint)


def _workers_error(message: str, hint: str) -> RequestError:
    return RequestError(400, "wrong_workers", message, hint)


def _parallelism_error(message: str, hint: str) -> RequestError:
    return RequestError(400, "wrong_parallelism", message, hint)
