"""Compatibility of a pipeline with a snapshot: state that is restored, starts empty or is lost."""

from __future__ import annotations

from typing import Any

from headrace.core.fitting import RestoreOptions, compare_checkpoint
from headrace.core.plan import nodes
from headrace.core.plan.fingerprint import build_fingerprints
from headrace.core.snapshots import Manifest


def check_compatibility(document: Manifest, plan: nodes.Plan) -> dict[str, Any]:
    """Check the compatibility as `run` does; return plain data.

    Lost state is found by comparing the check with one that allows lost state.
    """
    said: Any = document
    strict, lenient = (
        compare_checkpoint(document, plan),
        compare_checkpoint(document, plan, RestoreOptions(allow_lost_state=True)),
    )
    still = {message for message, _ in lenient.rejections}
    refused = [(message, hint) for message, hint in strict.rejections if message in still]
    lost = [(message, hint) for message, hint in strict.rejections if message not in still]
    both = build_fingerprints(plan).keys() & said["kept"].keys()
    bad = {step for step in both for m, _ in refused if m.startswith(f"the state of {step} ")}
    return {
        "fits": not strict.rejections,
        "goes_on": sorted(both - bad),
        "refused": [{"message": message, "hint": hint} for message, hint in refused],
        "lost": [{"message": message, "hint": hint} for message, hint in lost],
        "notes": list(strict.notes),
    }


def format_compatibility(title: str, path: str, found: dict[str, Any]) -> str:
    """Format the result for people."""
    lines = [f"{path} {'can' if found['fits'] else 'cannot'} resume from {title}"]
    if found["goes_on"]:
        lines.append(f"  the state of {', '.join(found['goes_on'])} is compatible")
    lines += [f"  {note}" for note in found["notes"]]
    for what, head in (("refused", "not compatible"), ("lost", "would be lost")):
        if found[what]:
            lines.append(f"{head}:")
        for each in found[what]:
            lines.append(f"  {each['message']}")
            lines += [f"      {each['hint']}"] if each["hint"] else []
    return "\n".join(lines)
