"""Whether a job can go on from a checkpoint: only where nothing in it would be lost or misread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.plan import nodes
from headrace.core.plan.fingerprint import differences, fingerprints
from headrace.core.snapshots import Manifest, RefusedSnapshot

FRESH = "--fresh begins anew, without what was kept"


def check_fits(number: int, document: Manifest, plan: nodes.Plan) -> None:
    """Raise RefusedSnapshot if the plan cannot go on from the checkpoint of that document."""
    for message, hint in _misfits(document, plan):
        raise RefusedSnapshot(f"checkpoint {number} does not fit: {message}", f"{hint}; {FRESH}")


def _misfits(document: Any, plan: nodes.Plan) -> Iterator[tuple[str, str]]:
    """What does not fit, and what to do about it."""
    parts = {part.name: part.parallelism for part in plan}
    if document["key_groups"] != plan.key_groups:
        was = document["key_groups"]
        message = f"it has {was} key groups, and the pipeline {plan.key_groups}"
        yield message, f"key_groups is fixed for the life of a state: say key_groups: {was}"
    for name, was in document["parts"].items():
        if name in parts and was != parts[name]:
            message = f"{name} had parallelism {was}, and now has {parts[name]}"
            yield message, f"say --parallelism {was}: a job cannot be rescaled yet"
    for step, was, now in differences(document["kept"], fingerprints(plan)):
        message = f"the state of {step} means something else\n      was: {was}\n      is:  {now}"
        yield message, "put it back, or give the step another name and begin it anew"
    for step in document["kept"]:
        if step not in parts:
            yield f"it has the state of {step}, which is not in the pipeline", "put it back"
    for source in document["sources"]:
        if source not in parts:
            yield f"{source} has been read, and is not in the pipeline", "put it back"
    for sink, kept in document["sinks"].items():
        if sink not in parts and kept["handles"]:
            yield f"{sink} has output to commit, and is not in the pipeline", "put it back"
