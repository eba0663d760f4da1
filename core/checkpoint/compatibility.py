"""The changes upstream of restored states: no state is misread, but its input may differ.

Parts are described as in a manifest: the producers of each, and its clauses.

The compatibility of a checkpoint with a pipeline that was changed since.

A job resumes only where no state would be lost or misread, unless an option allows it. The meaning
of each state is compared by what the checkpoint says of it (`plan/fingerprint`), never guessed:

    the same                       resumes, however it is written, and whatever is downstream
    a new call or column           starts with new rows (`operators/migrated_state`)
    another meaning                rejected with both texts, unless the step starts fresh
    another parallelism            resumes, and is reported
    a removed step, call, column,  rejected, unless lost state is allowed. The positions of a source
    source or sink                 and output that may not be committed are state as well
    a source with another origin   rejected, unless it starts fresh, from its start
    a change upstream of a state   resumes, and is reported
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headrace.core.api.snapshots import Manifest, RefusedSnapshot
from headrace.core.checkpoint.manifest import describe_parts
from headrace.core.plan import nodes
from headrace.core.plan.fingerprint import (
    build_fingerprints,
    describe_call,
    describe_fingerprint,
    describe_ttl,
)
from headrace.core.types.data_types import quote_name

PartDescriptions: TypeAlias = Mapping[str, Mapping[str, Any]]


def find_upstream_changes(
    steps: Collection[str], before: PartDescriptions, now: PartDescriptions
) -> Iterator[str]:
    """Yield a line for each part that has changed upstream of the states of these steps."""
    for part in {**now, **before}:
        of = [
            step
            for step in now
            if step in steps and part in _find_upstream_parts(step, before, now)
        ]
        if part in steps and not of:  # its clauses upstream of its own state
            if text := _compare_clauses(before[part]["before"], now[part]["before"]):
                yield f"upstream of its own state: {part} has changed: {text}"
        elif of:
            text = _compare_parts(before.get(part), now.get(part))
            if text:
                yield f"upstream of {', '.join(of)}: {part} {text}"


def _find_upstream_parts(step: str, *graphs: PartDescriptions) -> set[str]:
    """Return the parts upstream of a step."""
    found: set[str] = set()
    for parts in graphs:
        pending = [*parts[step]["from"]]
        while pending:
            part = pending.pop()
            found.add(part)
            pending.extend(parts[part]["from"])
    return found


def _compare_parts(was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    if now is None or was is None:
        return "was removed" if now is None else "is new"
    text = _compare_clauses([*was["before"], *was["then"]], [*now["before"], *now["then"]])
    return f"has changed: {text}" if text else ""


def _compare_clauses(was: list[str], now: list[str]) -> str:
    """Return the clauses that differ.

    >>> _compare_clauses(["from a", "where (x > 1)"], ["from a", "where (x > 2)"])
    'was where (x > 1), is where (x > 2)'
    """
    gone = "; ".join(text for text in was if text not in now)
    new = "; ".join(text for text in now if text not in was)
    if not gone and not new:
        return "their order" if was != now else ""
    return ", ".join(filter(None, (f"was {gone}" if gone else "", f"is {new}" if new else "")))


FRESH_HINT = "--fresh starts from scratch, without state"


PUT_BACK_HINT = "put it back"


ALLOW_LOST_STATE_HINT = "--allow-lost-state resumes without it"


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of a restore."""

    fresh_parts: frozenset[str] = frozenset()
    """The steps and sources that start fresh, without their state."""
    allow_lost_state: bool = False
    """Whether state that nothing in the pipeline uses may be dropped."""
    resume_drained: bool = False
    """Whether a drained job may be resumed."""


@dataclass(slots=True)
class CompatibilityReport:
    """The result of the comparison: the reasons to reject, with hints, and the changes."""

    options: RestoreOptions
    rejections: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def reject(self, message: str, *hints: str) -> None:
        """Add a reason to reject the checkpoint."""
        self.rejections.append((message, "; ".join(hints)))

    def add_lost_state(self, what: str, where: str, *hints: str) -> None:
        """Add state that nothing uses: reported if allowed, else a reason to reject."""
        if self.options.allow_lost_state:
            self.notes.append(f"resumes without {what}")
        else:
            self.reject(f"it has {what}, {where}", *hints, ALLOW_LOST_STATE_HINT)


def check_compatibility(
    number: int, document: Manifest, plan: nodes.Plan, wishes: RestoreOptions | None = None
) -> tuple[str, ...]:
    """Return the changes since a checkpoint. Raises RefusedSnapshot if it is not compatible."""
    findings = compare_checkpoint(document, plan, wishes)
    if findings.rejections:
        messages = "\n  and ".join(message for message, _ in findings.rejections)
        said_so = [each for _, hint in findings.rejections for each in hint.split("; ") if each]
        hints = dict.fromkeys([*said_so, FRESH_HINT])
        message = f"checkpoint {number} is not compatible: {messages}"
        raise RefusedSnapshot(message, "; ".join(hints))
    return tuple(findings.notes)


def compare_checkpoint(
    document: Manifest, plan: nodes.Plan, wishes: RestoreOptions | None = None
) -> CompatibilityReport:
    """Return everything that keeps a job from resuming, and all changes to report."""
    findings = CompatibilityReport(wishes or RestoreOptions())
    said_of: Any = document
    if said_of["drained"] and not findings.options.resume_drained:
        why = "the job was drained: every window has fired with the rows it had"
        findings.reject(why, "--resume-drained resumes, and new rows open new windows")
    _compare_parallelism(said_of, plan, findings)
    _compare_states(said_of["kept"], plan, findings)
    _compare_connectors(said_of, plan, findings)
    resumed = (
        build_fingerprints(plan).keys() & said_of["kept"].keys() - findings.options.fresh_parts
    )
    findings.notes += find_upstream_changes(resumed, said_of["parts"], describe_parts(plan))
    return findings


def _compare_parallelism(document: Any, plan: nodes.Plan, findings: CompatibilityReport) -> None:
    """Compare the key groups and the parallelism."""
    was, resumed = document["key_groups"], build_fingerprints(plan).keys() & document["kept"].keys()
    if was != plan.key_groups and resumed - findings.options.fresh_parts:
        message = f"it has {was} key groups, and the pipeline {plan.key_groups}"
        fixed = "key_groups is fixed for the life of a state"
        findings.reject(message, f"{fixed}: set key_groups: {was}")
    before = {name: said["subtasks"] for name, said in document["parts"].items()}
    changed: dict[tuple[int, int], list[str]] = {}
    for part in plan:
        if (subtasks := before.get(part.name, part.parallelism)) != part.parallelism:
            changed.setdefault((subtasks, part.parallelism), []).append(part.name)
    for (from_, to), names in changed.items():
        parts = "" if len(names) == len(plan.parts) else f" of {', '.join(names)}"
        findings.notes.append(f"the parallelism{parts} was {from_}, and is {to}")


def _compare_states(
    kept: Mapping[str, Any], plan: nodes.Plan, findings: CompatibilityReport
) -> None:
    now, names = build_fingerprints(plan), {part.name for part in plan}
    for step, was in kept.items():
        if step in findings.options.fresh_parts:
            findings.notes.append(f"{step} starts fresh, without its state")
        elif step in now:
            _compare_state(step, was, now[step], findings)
        else:
            gone = "which is stateless now" if step in names else "which is not in the pipeline"
            findings.add_lost_state(f"the state of {step}", gone, PUT_BACK_HINT)
    for step in now:
        if step not in kept:
            begins = "it starts with new rows"
            findings.notes.append(f"{step} has no state yet: {begins}")


def _compare_state(
    step: str, was: Mapping[str, Any], now: Mapping[str, Any], findings: CompatibilityReport
) -> None:
    reset = f"--reset-state {step} starts it fresh"
    if why := _find_difference(was, now):
        texts = f"      was: {describe_fingerprint(was)}\n      is:  {describe_fingerprint(now)}"
        findings.reject(f"the state of {step} {why}\n{texts}", reset)
        return
    gone = [describe_call(t, call) for t, call in was["calls"].items() if t not in now["calls"]]
    gone += [f"column {quote_name(name)}" for name in was["columns"] if name not in now["columns"]]
    gone += ["the emitted rows that may change"] if _is_removed("shown", was, now) else []
    for what in gone:
        where = (
            f"which it no longer stores\n      was: {describe_fingerprint(was)}\n      is:  "
            f"{describe_fingerprint(now)}"
        )
        findings.add_lost_state(f"{what} in the state of {step}", where, PUT_BACK_HINT, reset)
    new = [describe_call(t, call) for t, call in now["calls"].items() if t not in was["calls"]]
    new += [f"column {quote_name(name)}" for name in now["columns"] if name not in was["columns"]]
    findings.notes += [f"{step} has {what} only for new rows" for what in new]


def _is_removed(state: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return state in was["states"] and state not in now["states"]


def _find_difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the first difference in meaning, if there is any."""
    if was["key"] != now["key"]:
        return "has another key"
    if was["window"] != now["window"]:
        return "has another window"
    if was["does"] != now["does"]:
        return "belongs to another operation"
    if was["ttl"] and now["ttl"] and was["ttl"] != now["ttl"]:
        return "expires by another clock"
    if was["lateness_us"] < now["lateness_us"] or (was["lateness_us"] and not now["lateness_us"]):
        return "has another lateness: the state of ended windows is removed"
    for kind in ("calls", "columns"):
        for text, of in now[kind].items():
            before = was[kind].get(text, of)
            if before != of:
                return (
                    f"has {text} of another "
                    f"{_name_difference(before, of) if kind == 'calls' else 'type'}"
                )
    if renamed := _find_renamed_column(was, now):
        return f"has emitted rows with {quote_name(renamed)}, which has another name now"
    return _find_mixed_aggregate(was, now)


def _find_renamed_column(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return a renamed column of emitted rows: they may have to be retracted under the old name."""
    for name in was.get("shows", ()):
        is_kept = all(call in now["calls"] for call in was["aggregates"].get(name, ()))
        if is_kept and name not in now["shows"]:
            return str(name)
    return ""


def _name_difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say which property of a call, or of a user-defined state, differs."""
    before, after = describe_ttl(was), describe_ttl(now)
    if was["of"] != now["of"] or before == after:
        return "type"
    return "ttl" if "ttl" in before + after else "time"


def _find_mixed_aggregate(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return why an aggregate would mix old and new calls, if one would.

    The calls of an aggregate must all be restored or all be new: otherwise a sum of all rows would
    be combined with the count of the last ones. An aggregate that keeps its name is not new, so its
    calls may not be.
    """
    for name, calls in now["aggregates"].items():
        new = [call for call in calls if call not in was["calls"]]
        if new and name in was["aggregates"]:
            return f"has another {name}"
        if new and len(new) < len(calls):
            kept = next(call for call in calls if call in was["calls"])
            return f"has {kept} of all rows, and {new[0]} of none yet: {name} needs both"
    return ""


def _compare_connectors(document: Any, plan: nodes.Plan, findings: CompatibilityReport) -> None:
    """Compare the positions of sources and the output to commit of sinks."""
    now = describe_parts(plan)
    parts = document["parts"]
    for source, splits in document["sources"].items():
        if source in findings.options.fresh_parts:
            findings.notes.append(f"{source} is read from its start")
        elif source not in now:
            if splits:
                findings.add_lost_state(
                    f"the positions of {source}", "which is not in the pipeline", PUT_BACK_HINT
                )
        elif splits and (was := parts[source]["origin"]) != (is_ := now[source]["origin"]):
            message = f"{source} was read elsewhere\n      was: {was}\n      is:  {is_}"
            findings.reject(message, f"--reset-state {source} reads it from its start")
    for part in plan:
        if isinstance(part, nodes.Source) and part.name not in document["sources"]:
            findings.notes.append(f"{part.name} is new, and read from its start")
    commit = "run the unchanged pipeline once more, which commits it"
    for sink, kept in document["sinks"].items():
        if not kept["handles"]:
            continue
        if sink not in now:
            what = f"output to commit for {sink}"
            findings.add_lost_state(what, "which is not in the pipeline", commit)
        elif (was := parts[sink]["origin"]) != (is_ := now[sink]["origin"]):
            where = f"which writes elsewhere now\n      was: {was}\n      is:  {is_}"
            findings.add_lost_state(f"output to commit for {sink}", where, commit)
