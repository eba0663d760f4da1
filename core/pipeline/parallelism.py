"""The parallelism and the workers of a loaded pipeline, changed after it was loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.core.pipeline.model import Pipeline


def set_parallelism(
    pipeline: Pipeline, parallelism: int | None, parts: Mapping[str, int]
) -> Pipeline:
    """Return a pipeline with another parallelism: its own, and that of single steps and sinks."""
    settings = pipeline.settings
    if parallelism is not None:
        settings = settings.model_copy(update={"parallelism": parallelism})
    steps = {
        name: step.model_copy(update={"parallelism": parts[name]}) if name in parts else step
        for name, step in pipeline.steps.items()
    }
    sinks = {
        name: sink.model_copy(update={"parallelism": parts[name]}) if name in parts else sink
        for name, sink in pipeline.sinks.items()
    }
    follows = pipeline.follows_workers and parallelism is None
    return replace(pipeline, settings=settings, steps=steps, sinks=sinks, follows_workers=follows)


def set_workers(pipeline: Pipeline, count: int) -> Pipeline:
    """Return a pipeline with another number of workers, and their parallelism if it follows."""
    settings, update = pipeline.settings, {"workers": count}
    if pipeline.follows_workers:
        update["parallelism"] = min(count, settings.key_groups)
    return replace(pipeline, settings=settings.model_copy(update=update))
