"""The number of workers that `workers: auto` stands for.

A process runs Python in one thread at a time, while expressions run in Polars' threads beside it:
measured, one process uses 1.3 processors. So a pipeline whose own Python runs for each row gains
most from more processes, and one of expressions gains from them with several processors each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headrace.core.errors.rendering import format_size
from headrace.core.pipeline.clauses.keyed import UserAssignment
from headrace.core.pipeline.model import DEFAULT_SLOT, Pipeline, Step, WorkerChoice
from headrace.core.pipeline.parallelism import set_workers
from headrace.core.pipeline.settings import AUTO_WORKERS, MAX_WORKERS

SMALL_INPUT_BYTES = 64 << 20
"""An input that one process reads in the time that it takes to start more of them."""

PROCESSORS_OF_EXPRESSIONS = 2
"""The processors that a worker can use for expressions alone."""


def resolve_workers(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Return the pipeline with the number of workers that it asks for, and their parallelism."""
    count, choice = pipeline.settings.workers, None
    if count == AUTO_WORKERS:
        choice = choose_workers(pipeline, folder, count_processors())
        count = choice.count
    follows = "parallelism" not in pipeline.settings.model_fields_set
    return set_workers(replace(pipeline, worker_choice=choice, follows_workers=follows), count)


def choose_workers(pipeline: Pipeline, folder: Path, processors: int) -> WorkerChoice:
    """Return the number of workers that pay for a pipeline on a machine."""
    for reason in _list_objections(pipeline, folder, processors):
        return WorkerChoice(1, reason)
    step = next((step for step in pipeline.steps.values() if runs_python(step)), None)
    if step is not None:
        count, reason = processors, f"{processors} processors; {step.name} runs your Python"
    else:
        count = processors // PROCESSORS_OF_EXPRESSIONS
        reason = f"{processors} processors; one worker uses {PROCESSORS_OF_EXPRESSIONS} of them"
    widths = _get_widths(pipeline)
    most = sum(widths.values())
    if widths and most < count:
        together = f" in {len(widths)} slots together" if len(widths) > 1 else ""
        count, reason = most, f"parallelism is at most {most}{together}"
    return WorkerChoice(count, reason)


def _list_objections(pipeline: Pipeline, folder: Path, processors: int) -> Iterator[str]:
    """Yield the reasons for which one process is best."""
    if processors == 1:
        yield "there is one processor"
    if any(step.iterate is not None for step in pipeline.steps.values()):
        yield "a loop runs in one process"
    for source in pipeline.sources.values():
        side = source.connector.source
        if side is not None and not side.is_replayable:
            why = "jobs without checkpoints have no workers"
            yield f"{source.name} cannot be read again, and {why}"
    size = _estimate_input(pipeline, folder)
    if size is not None and size < SMALL_INPUT_BYTES:
        yield f"the input has about {format_size(size)}, and more processes start too slowly for it"


def _estimate_input(pipeline: Pipeline, folder: Path) -> int | None:
    """Return about how many bytes there are to read; None if unknown, or without end."""
    total = 0
    for source in pipeline.sources.values():
        side = source.connector.source
        size = None if side is None else side.estimate_bytes(source.options, folder)
        if size is None:
            return None
        total += size
    return total


def _get_widths(pipeline: Pipeline) -> dict[str, int]:
    """Return the highest parallelism in each slot; nothing if it follows the workers.

    Parts without a slot of their own count as those without any, wherever their input is.
    """
    of_job, widths = pipeline.settings.parallelism, dict[str, int]()
    if "parallelism" not in pipeline.settings.model_fields_set:
        return widths
    sources = ((source.slot, of_job) for source in pipeline.sources.values())
    steps = ((step.slot, step.parallelism or of_job) for step in pipeline.steps.values())
    sinks = ((sink.slot, sink.parallelism or of_job) for sink in pipeline.sinks.values())
    for slot, parallelism in (*sources, *steps, *sinks):
        name = str(slot or DEFAULT_SLOT)
        widths[name] = max(widths.get(name, 0), parallelism)
    return widths


def runs_python(step: Step) -> bool:
    """Whether the user's Python runs for each row, key or window of a step."""
    aggregates = step.aggregate or ()
    trigger = step.window.trigger if step.window else None
    return (
        (step.map is not None and step.map.mode == "row")
        or step.process is not None
        or step.apply is not None
        or any(isinstance(each, UserAssignment) for each in aggregates)
        or (trigger is not None and trigger.python is not None)
    )


def count_processors() -> int:
    """Return the number of processors that this process may use."""
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(usable, MAX_WORKERS)
