"""The compatibility of a checkpoint with a pipeline that was changed since.

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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.manifest import described
from headrace.core.plan import nodes
from headrace.core.plan.fingerprint import call_said, fingerprints, said, ttl_said
from headrace.core.snapshots import Manifest, RefusedSnapshot
from headrace.core.types import quoted
from headrace.core.upstream import upstream_changes

FRESH = "--fresh starts from scratch, without state"
BACK = "put it back"
LOSE = "--allow-lost-state resumes without it"


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of a restore."""

    anew: frozenset[str] = frozenset()
    """The steps and sources that start fresh, without their state."""
    lose: bool = False
    """Whether state that nothing in the pipeline uses may be dropped."""
    drained: bool = False
    """Whether a drained job may be resumed."""


@dataclass(slots=True)
class Findings:
    """The result of the comparison: the reasons to reject, with hints, and the changes."""

    wishes: Wishes
    refusals: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, message: str, *hints: str) -> None:
        """Add a reason to reject the checkpoint."""
        self.refusals.append((message, "; ".join(hints)))

    def lost(self, what: str, where: str, *hints: str) -> None:
        """Add state that nothing uses: reported if allowed, else a reason to reject."""
        if self.wishes.lose:
            self.notes.append(f"resumes without {what}")
        else:
            self.refuse(f"it has {what}, {where}", *hints, LOSE)


def check_fits(
    number: int, document: Manifest, plan: nodes.Plan, wishes: Wishes | None = None
) -> tuple[str, ...]:
    """Return the changes since a checkpoint. Raises RefusedSnapshot if it is not compatible."""
    findings = compared(document, plan, wishes)
    if findings.refusals:
        messages = "\n  and ".join(message for message, _ in findings.refusals)
        said_so = [each for _, hint in findings.refusals for each in hint.split("; ") if each]
        hints = dict.fromkeys([*said_so, FRESH])
        message = f"checkpoint {number} is not compatible: {messages}"
        raise RefusedSnapshot(message, "; ".join(hints))
    return tuple(findings.notes)


def compared(document: Manifest, plan: nodes.Plan, wishes: Wishes | None = None) -> Findings:
    """Return everything that keeps a job from resuming, and all changes to report."""
    findings = Findings(wishes or Wishes())
    said_of: Any = document
    if said_of["drained"] and not findings.wishes.drained:
        why = "the job was drained: every window has fired with the rows it had"
        findings.refuse(why, "--resume-drained resumes, and new rows open new windows")
    _check_subtasks(said_of, plan, findings)
    _check_states(said_of["kept"], plan, findings)
    _check_ends(said_of, plan, findings)
    resumed = fingerprints(plan).keys() & said_of["kept"].keys() - findings.wishes.anew
    findings.notes += upstream_changes(resumed, said_of["parts"], described(plan))
    return findings


def _check_subtasks(document: Any, plan: nodes.Plan, findings: Findings) -> None:
    """Compare the key groups and the parallelism."""
    was, resumed = document["key_groups"], fingerprints(plan).keys() & document["kept"].keys()
    if was != plan.key_groups and resumed - findings.wishes.anew:
        message = f"it has {was} key groups, and the pipeline {plan.key_groups}"
        fixed = "key_groups is fixed for the life of a state"
        findings.refuse(message, f"{fixed}: set key_groups: {was}")
    before = {name: said["subtasks"] for name, said in document["parts"].items()}
    changed: dict[tuple[int, int], list[str]] = {}
    for part in plan:
        if (subtasks := before.get(part.name, part.parallelism)) != part.parallelism:
            changed.setdefault((subtasks, part.parallelism), []).append(part.name)
    for (from_, to), names in changed.items():
        parts = "" if len(names) == len(plan.parts) else f" of {', '.join(names)}"
        findings.notes.append(f"the parallelism{parts} was {from_}, and is {to}")


def _check_states(kept: Mapping[str, Any], plan: nodes.Plan, findings: Findings) -> None:
    now, names = fingerprints(plan), {part.name for part in plan}
    for step, was in kept.items():
        if step in findings.wishes.anew:
            findings.notes.append(f"{step} starts fresh, without its state")
        elif step in now:
            _check_state(step, was, now[step], findings)
        else:
            gone = "which is stateless now" if step in names else "which is not in the pipeline"
            findings.lost(f"the state of {step}", gone, BACK)
    for step in now:
        if step not in kept:
            begins = "it starts with new rows"
            findings.notes.append(f"{step} has no state yet: {begins}")


def _check_state(
    step: str, was: Mapping[str, Any], now: Mapping[str, Any], findings: Findings
) -> None:
    reset = f"--reset-state {step} starts it fresh"
    if why := _difference(was, now):
        texts = f"      was: {said(was)}\n      is:  {said(now)}"
        findings.refuse(f"the state of {step} {why}\n{texts}", reset)
        return
    gone = [call_said(t, call) for t, call in was["calls"].items() if t not in now["calls"]]
    gone += [f"column {quoted(name)}" for name in was["columns"] if name not in now["columns"]]
    gone += ["the emitted rows that may change"] if _is_gone("shown", was, now) else []
    for what in gone:
        where = f"which it no longer stores\n      was: {said(was)}\n      is:  {said(now)}"
        findings.lost(f"{what} in the state of {step}", where, BACK, reset)
    new = [call_said(t, call) for t, call in now["calls"].items() if t not in was["calls"]]
    new += [f"column {quoted(name)}" for name in now["columns"] if name not in was["columns"]]
    findings.notes += [f"{step} has {what} only for new rows" for what in new]


def _is_gone(state: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return state in was["states"] and state not in now["states"]


def _difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
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
                return f"has {text} of another {_other(before, of) if kind == 'calls' else 'type'}"
    if renamed := _renamed(was, now):
        return f"has emitted rows with {quoted(renamed)}, which has another name now"
    return _mixed(was, now)


def _renamed(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return a renamed column of emitted rows: they may have to be retracted under the old name."""
    for name in was.get("shows", ()):
        is_kept = all(call in now["calls"] for call in was["aggregates"].get(name, ()))
        if is_kept and name not in now["shows"]:
            return str(name)
    return ""


def _other(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say which property of a call, or of a user-defined state, differs."""
    before, after = ttl_said(was), ttl_said(now)
    if was["of"] != now["of"] or before == after:
        return "type"
    return "ttl" if "ttl" in before + after else "time"


def _mixed(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
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


def _check_ends(document: Any, plan: nodes.Plan, findings: Findings) -> None:
    """Compare the positions of sources and the output to commit of sinks."""
    now = described(plan)
    parts = document["parts"]
    for source, splits in document["sources"].items():
        if source in findings.wishes.anew:
            findings.notes.append(f"{source} is read from its start")
        elif source not in now:
            if splits:
                findings.lost(f"the positions of {source}", "which is not in the pipeline", BACK)
        elif splits and (was := parts[source]["origin"]) != (is_ := now[source]["origin"]):
            message = f"{source} was read elsewhere\n      was: {was}\n      is:  {is_}"
            findings.refuse(message, f"--reset-state {source} reads it from its start")
    for part in plan:
        if isinstance(part, nodes.Source) and part.name not in document["sources"]:
            findings.notes.append(f"{part.name} is new, and read from its start")
    commit = "run the unchanged pipeline once more, which commits it"
    for sink, kept in document["sinks"].items():
        if not kept["handles"]:
            continue
        if sink not in now:
            what = f"output to commit for {sink}"
            findings.lost(what, "which is not in the pipeline", commit)
        elif (was := parts[sink]["origin"]) != (is_ := now[sink]["origin"]):
            where = f"which writes elsewhere now\n      was: {was}\n      is:  {is_}"
            findings.lost(f"output to commit for {sink}", where, commit)
