"""Whether a job can go on from a checkpoint of a pipeline that was changed since.

Only where nothing that is kept would be lost or misread, unless somebody says so. What the states
mean is compared by what the checkpoint has of it (`plan/fingerprint`), never guessed:

    the same                       goes on, however it is written now, and whatever is downstream
    a call or a column is new      begins with what comes now (`operators/fitted`)
    it means something else        refused with both texts, unless the step begins anew
    another parallelism            goes on, and is told
    it is gone: a step, a call,    refused, unless lost state is allowed. Positions of a source, and
    a column, a source, a sink     output that is not known to be committed, are state as well
    a source reads elsewhere       refused, unless it begins anew, from its start
    something upstream of a state  goes on, and is told
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

FRESH = "--fresh begins anew, without what was kept"
BACK = "put it back"
LOSE = "--allow-lost-state goes on without it"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What somebody allows."""

    anew: frozenset[str] = frozenset()
    """The steps and sources that are to forget what is kept of them."""
    lose: bool = False
    """Whether what nothing goes on with may go."""
    drained: bool = False
    """Whether to go on behind the end of time."""


@dataclass(slots=True)
class Findings:
    """What was found: why not, each with what to do about it, and what is to be told if so."""

    wishes: Wishes
    refusals: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, message: str, *hints: str) -> None:
        """It cannot go on like this."""
        self.refusals.append((message, "; ".join(hints)))

    def lost(self, what: str, where: str, *hints: str) -> None:
        """Something is kept that nothing goes on with."""
        if self.wishes.lose:
            self.notes.append(f"goes on without {what}")
        else:
            self.refuse(f"it has {what}, {where}", *hints, LOSE)


def check_fits(
    number: int, document: Manifest, plan: nodes.Plan, wishes: Wishes | None = None
) -> tuple[str, ...]:
    """What to tell of the changes since that checkpoint; RefusedSnapshot if it does not fit."""
    findings = compared(document, plan, wishes)
    if findings.refusals:
        messages = "\n  and ".join(message for message, _ in findings.refusals)
        said_so = [each for _, hint in findings.refusals for each in hint.split("; ") if each]
        hints = dict.fromkeys([*said_so, FRESH])
        raise RefusedSnapshot(f"checkpoint {number} does not fit: {messages}", "; ".join(hints))
    return tuple(findings.notes)


def compared(document: Manifest, plan: nodes.Plan, wishes: Wishes | None = None) -> Findings:
    """All that stands in the way of going on, and all that is to be told."""
    findings = Findings(wishes or Wishes())
    said_of: Any = document
    if said_of["drained"] and not findings.wishes.drained:
        why = "the job was drained: every window fired, with the rows that had come"
        findings.refuse(why, "--resume-drained goes on, and rows that come now make windows anew")
    _check_subtasks(said_of, plan, findings)
    _check_states(said_of["kept"], plan, findings)
    _check_ends(said_of, plan, findings)
    goes_on = fingerprints(plan).keys() & said_of["kept"].keys() - findings.wishes.anew
    findings.notes += upstream_changes(goes_on, said_of["parts"], described(plan))
    return findings


def _check_subtasks(document: Any, plan: nodes.Plan, findings: Findings) -> None:
    """How states are divided, and among how many."""
    was, going_on = document["key_groups"], fingerprints(plan).keys() & document["kept"].keys()
    if was != plan.key_groups and going_on - findings.wishes.anew:
        message = f"it has {was} key groups, and the pipeline {plan.key_groups}"
        fixed = "key_groups is fixed for the life of a state"
        findings.refuse(message, f"{fixed}: say key_groups: {was}")
    before = {name: said["subtasks"] for name, said in document["parts"].items()}
    changed: dict[tuple[int, int], list[str]] = {}
    for part in plan:
        if (subtasks := before.get(part.name, part.parallelism)) != part.parallelism:
            changed.setdefault((subtasks, part.parallelism), []).append(part.name)
    for (from_, to), names in changed.items():
        who = "" if len(names) == len(plan.parts) else f" of {', '.join(names)}"
        findings.notes.append(f"the parallelism{who} was {from_}, and is {to}")


def _check_states(kept: Mapping[str, Any], plan: nodes.Plan, findings: Findings) -> None:
    now, names = fingerprints(plan), {part.name for part in plan}
    for step, was in kept.items():
        if step in findings.wishes.anew:
            findings.notes.append(f"{step} begins anew, without what was kept of it")
        elif step in now:
            _check_state(step, was, now[step], findings)
        else:
            gone = "which keeps nothing now" if step in names else "which is not in the pipeline"
            findings.lost(f"the state of {step}", gone, BACK)
    for step in now:
        if step not in kept:
            begins = "it begins with the rows that come now"
            findings.notes.append(f"{step} keeps nothing yet: {begins}")


def _check_state(
    step: str, was: Mapping[str, Any], now: Mapping[str, Any], findings: Findings
) -> None:
    anew = f"--reset-state {step} begins it anew"
    if why := _difference(was, now):
        texts = f"      was: {said(was)}\n      is:  {said(now)}"
        findings.refuse(f"the state of {step} {why}\n{texts}", anew)
        return
    gone = [call_said(t, call) for t, call in was["calls"].items() if t not in now["calls"]]
    gone += [f"column {quoted(name)}" for name in was["columns"] if name not in now["columns"]]
    gone += ["what was put out and may change"] if _is_gone("shown", was, now) else []
    for what in gone:
        where = f"which it does not keep now\n      was: {said(was)}\n      is:  {said(now)}"
        findings.lost(f"{what} in the state of {step}", where, BACK, anew)
    new = [call_said(t, call) for t, call in now["calls"].items() if t not in was["calls"]]
    new += [f"column {quoted(name)}" for name in now["columns"] if name not in was["columns"]]
    findings.notes += [f"{step} keeps {what} only of the rows that come now" for what in new]


def _is_gone(state: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return state in was["states"] and state not in now["states"]


def _difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What of it means something else, if anything does."""
    if was["key"] != now["key"]:
        return "has another key"
    if was["window"] != now["window"]:
        return "has another window"
    if was["does"] != now["does"]:
        return "is of something else"
    if was["ttl"] and now["ttl"] and was["ttl"] != now["ttl"]:
        return "is remembered by another time"
    if was["lateness_us"] < now["lateness_us"] or (was["lateness_us"] and not now["lateness_us"]):
        return "has another lateness: of windows that are over nothing is left"
    for kind in ("calls", "columns"):
        for text, of in now[kind].items():
            before = was[kind].get(text, of)
            if before != of:
                return f"has {text} of another {_other(before, of) if kind == 'calls' else 'type'}"
    if renamed := _renamed(was, now):
        return f"has {quoted(renamed)} in the rows that it put out, which is called otherwise now"
    return _mixed(was, now)


def _renamed(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """A column of rows that may still be deleted as they were: under another name it is unknown."""
    for name in was.get("shows", ()):
        is_kept = all(call in now["calls"] for call in was["aggregates"].get(name, ()))
        if is_kept and name not in now["shows"]:
            return str(name)
    return ""


def _other(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What of a call, or of a state of a class, is another one."""
    before, after = ttl_said(was), ttl_said(now)
    if was["of"] != now["of"] or before == after:
        return "type"
    return "ttl" if "ttl" in before + after else "time"


def _mixed(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """An aggregate is made of calls that all are kept, or that all begin now.

    Else a sum of all rows would stand beside the count of the last ones. And one whose name stays
    has not been added, so it may not begin now.
    """
    for name, calls in now["aggregates"].items():
        new = [call for call in calls if call not in was["calls"]]
        if new and name in was["aggregates"]:
            return f"has another {name}"
        if new and len(new) < len(calls):
            kept = next(call for call in calls if call in was["calls"])
            return f"has {kept} of all rows, and {new[0]} of none yet: {name} is made of both"
    return ""


def _check_ends(document: Any, plan: nodes.Plan, findings: Findings) -> None:
    """What was read, and what was written."""
    now = described(plan)
    parts = document["parts"]
    for source, splits in document["sources"].items():
        if source in findings.wishes.anew:
            findings.notes.append(f"{source} is read from its start")
        elif source not in now:
            if splits:
                findings.lost(f"how far {source} was read", "which is not in the pipeline", BACK)
        elif splits and (was := parts[source]["origin"]) != (is_ := now[source]["origin"]):
            message = f"{source} was read elsewhere\n      was: {was}\n      is:  {is_}"
            findings.refuse(message, f"--reset-state {source} reads it from its start")
    for part in plan:
        if isinstance(part, nodes.Source) and part.name not in document["sources"]:
            findings.notes.append(f"{part.name} is new, and read from its start")
    commit = "run the pipeline as it was once more, which commits it"
    for sink, kept in document["sinks"].items():
        if not kept["handles"]:
            continue
        if sink not in now:
            what = f"output to commit for {sink}"
            findings.lost(what, "which is not in the pipeline", commit)
        elif (was := parts[sink]["origin"]) != (is_ := now[sink]["origin"]):
            where = f"which writes elsewhere now\n      was: {was}\n      is:  {is_}"
            findings.lost(f"output to commit for {sink}", where, commit)
