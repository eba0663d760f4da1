"""The parallelism of a loaded pipeline, changed after it was loaded."""

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
    return replace(pipeline, settings=settings, steps=steps, sinks=sinks)
