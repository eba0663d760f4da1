"""The compatibility of a checkpoint with a pipeline that was changed since.

A job resumes only where no state would be lost or misread, unless an option allows it. The meaning
of each state is compared by its fingerprint in the checkpoint (`plan/fingerprint`), never guessed:

    the same                       resumes, however it is written, and whatever is downstream
    a new call or column           starts with new rows (`operators/state_migration`); of counted
                                   rows only if these are removed without it (`added_columns`)
    another meaning                rejected with both texts, unless the step starts fresh
    another parallelism            resumes, and is reported
    a removed step, call, column,  rejected, unless lost state is allowed. The positions of a source
    source or sink                 and output that may not be committed are state as well
    a source with another origin   rejected, unless it starts fresh, from its start
    a change upstream of a state   resumes, and is reported: the state is not misread, but its input
                                   may differ
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from headrace.core.api.snapshots import Manifest, RefusedSnapshot
from headrace.core.checkpoint.added_columns import AddedColumns
from headrace.core.checkpoint.manifest import (
    CheckpointContent,
    PartDescription,
    PartDescriptions,
    describe_parts,
    parse_manifest,
)
from headrace.core.checkpoint.part_changes import (
    compare_inputs,
    compare_parts,
    find_upstream_changes,
    find_upstream_parts,
)
from headrace.core.checkpoint.removed_rows import counts_rows, find_conflicts, list_groups
from headrace.core.plan import nodes
from headrace.core.plan.fingerprint import (
    Fingerprint,
    StoredCall,
    build_fingerprints,
    describe_call,
    describe_fingerprint,
    describe_ttl,
)
from headrace.core.plan.layout import get_keyed_operation
from headrace.core.plan.states import EMITTED_STATE
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass

FRESH_HINT = "--fresh starts from scratch, without state"
ALLOW_LOST_STATE_HINT = "--allow-lost-state resumes without it"


def drop_fresh_hint(hint: str) -> str:
    """Return the hint of a rejection for a command that cannot start from scratch.

    >>> drop_fresh_hint(f"{ALLOW_LOST_STATE_HINT}; {FRESH_HINT}")
    '--allow-lost-state resumes without it'
    """
    return hint.removesuffix(FRESH_HINT).removesuffix("; ")


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
    number: int, document: Manifest, plan: nodes.Plan, options: RestoreOptions | None = None
) -> tuple[str, ...]:
    """Return the changes since a checkpoint. Raises RefusedSnapshot if it is not compatible."""
    findings = compare_checkpoint(document, plan, options)
    if rejections := findings.rejections:
        hints = list(dict.fromkeys(hint for _, hint in rejections if hint))
        if len(hints) > 1:  # each after its reason
            rejections = [(f"{why}\n      {hint}".rstrip(), "") for why, hint in rejections]
            hints = []
        messages = "\n  and ".join(message for message, _ in rejections)
        message = f"checkpoint {number} is not compatible: {messages}"
        raise RefusedSnapshot(message, "; ".join([*hints, FRESH_HINT]))
    return tuple(findings.notes)


def compare_checkpoint(
    document: Manifest, plan: nodes.Plan, options: RestoreOptions | None = None
) -> CompatibilityReport:
    """Return everything that keeps a job from resuming, and all changes to report."""
    findings = CompatibilityReport(options or RestoreOptions())
    content, now = parse_manifest(document), build_fingerprints(plan)
    resumed = now.keys() & content.fingerprints.keys() - findings.options.fresh_parts
    if content.is_drained and not findings.options.resume_drained:
        why = "the job was drained: every window has fired with the rows it had"
        findings.reject(why, "--resume-drained resumes, and new rows open new windows")
    if content.key_groups != plan.key_groups and resumed:
        message = f"it has {content.key_groups} key groups, and the pipeline {plan.key_groups}"
        fixed = "key_groups is fixed for the life of a state"
        findings.reject(message, f"{fixed}: set key_groups: {content.key_groups}")
    _compare_parallelism(content.parts, plan, findings)
    added = AddedColumns(plan, content.fingerprints)
    _compare_states(content.fingerprints, now, added, findings)
    parts = describe_parts(plan)
    _compare_sources(content, parts, plan, findings)
    _compare_sinks(content, parts, findings)
    findings.notes += _find_late_sinks(resumed, content, plan)
    compared = added.leave_out_copies(parts, content.parts)
    for conflict in find_conflicts(
        plan,
        resumed,
        lambda name: compare_parts(content.parts.get(name), compared.get(name)),
        lambda name: compare_inputs(content.parts[name], compared[name]),
    ):
        findings.reject(conflict.message, *conflict.hints)
    findings.notes += find_upstream_changes(resumed, content.parts, parts)
    return findings


def _compare_parallelism(
    before: PartDescriptions, plan: nodes.Plan, findings: CompatibilityReport
) -> None:
    changed: dict[tuple[int, int], list[str]] = {}
    for part in plan:
        was = before[part.name].parallelism if part.name in before else part.parallelism
        if was != part.parallelism:
            changed.setdefault((was, part.parallelism), []).append(part.name)
    for (from_, to), names in changed.items():
        parts = "" if len(names) == len(plan.parts) else f" of {', '.join(names)}"
        findings.notes.append(f"the parallelism{parts} was {from_}, and is {to}")


def _compare_states(
    before: Mapping[str, Fingerprint],
    now: Mapping[str, Fingerprint],
    added: AddedColumns,
    findings: CompatibilityReport,
) -> None:
    plan = added.plan
    names = {part.name for part in plan}
    together = {step: group.steps for group in list_groups(plan) for step in group.steps}
    for step, was in before.items():
        if step in findings.options.fresh_parts:
            findings.notes.append(f"{step} starts fresh, without its state")
        elif step in now:
            resets = _format_resets(together.get(step, (step,)))
            counted = added if counts_rows(plan.part(step)) else None
            _compare_state(step, was, now[step], findings, counted, resets)
        else:
            cause, hint = "which is not in the pipeline", "add the step again"
            if step in names:
                cause, hint = "which is stateless now", "undo the change of the step"
            findings.add_lost_state(f"the state of {step}", cause, hint)
    new = (step for step in now if step not in before and not _list_written(step, plan))
    findings.notes += [f"{step} has no state yet: it starts with new rows" for step in new]


def _compare_state(
    step: str,
    was: Fingerprint,
    now: Fingerprint,
    findings: CompatibilityReport,
    counted: AddedColumns | None,
    reset: str,
) -> None:
    """Compare a state; `counted` is there if it counts rows that are added and removed.

    `reset` is a hint: what drops the state.
    """
    texts = f"      was: {describe_fingerprint(was)}\n      is:  {describe_fingerprint(now)}"
    if why := _find_difference(was, now):
        findings.reject(f"the state of {step} {why}\n{texts}", reset)
        return
    missing = _list_missing(was, now)
    if "shown" in was.states and "shown" not in now.states:
        missing.append("the emitted rows that may change")
    if EMITTED_STATE in was.states and EMITTED_STATE not in now.states:
        missing.append("whether the row of no rows was emitted")
    added = _list_missing(now, was)
    if counted is not None:
        why = _find_counted_difference(step, was, now, counted, missing)
        if why:
            findings.reject(
                f"the state of {step} has other {why}\n{texts}", "undo the change", reset
            )
            return
    for what in missing:
        where = f"which it no longer stores\n{texts}"
        findings.add_lost_state(f"{what} in the state of {step}", where, "add it again", reset)
    findings.notes += [f"{step} has {what} only for new rows" for what in added]


def _find_counted_difference(
    step: str, was: Fingerprint, now: Fingerprint, added: AddedColumns, missing: Sequence[str]
) -> str:
    """Return the difference of a state that counts rows, if its rows cannot be migrated."""
    if missing:
        return f"columns: it no longer has {', '.join(missing)}"
    if unknown := added.list_unknown(step, now):
        why = "a row that is there already would be removed with another value than null"
        return f"columns: {', '.join(unknown)}; {why}"
    if _has_other_states(was, now):
        return f"contents: {', '.join(was.states)}, not {', '.join(now.states)}"
    if added.has_moved_values(step):
        return "contents: values of its aggregates are numbered in another order"
    return ""


def _format_resets(steps: Sequence[str]) -> str:
    """Return the hint that says how to drop the states of steps that can only start together."""
    flags = " ".join(f"--reset-state {step}" for step in steps)
    return f"{flags} drops {'its state' if len(steps) == 1 else 'their states'}"


def _has_other_states(was: Fingerprint, now: Fingerprint) -> bool:
    """Whether an aggregate, or a ranking, of counted rows stores other states.

    Older versions stored rows, which are counted or ranked (`operators/state_migration`).
    """
    before, after = ({*each.states} - {EMITTED_STATE} for each in (was, now))
    if before == after or not now.operation.startswith(("aggregate", "top", "dedup")):
        return False
    has_pages = "values" in now.states or "ranking" in now.states
    return not (before == {"keys", "rows"} and has_pages)


def _list_missing(one: Fingerprint, other: Fingerprint) -> list[str]:
    """Return the calls and columns that only the first state has."""
    calls = (describe_call(t, call) for t, call in one.calls.items() if t not in other.calls)
    columns = (f"column {quote_name(name)}" for name in one.columns if name not in other.columns)
    return [*calls, *columns]


def _find_difference(was: Fingerprint, now: Fingerprint) -> str:
    """Return the first difference in meaning, if there is any."""
    if was.key != now.key:
        return "has another key"
    if was.window != now.window:
        return "has another window"
    if was.operation != now.operation:
        return "belongs to another operation"
    if was.ttl and now.ttl and was.ttl != now.ttl:
        return "expires by another clock"
    if was.lateness_us < now.lateness_us or (was.lateness_us and not now.lateness_us):
        return "has another lateness: the state of ended windows is removed"
    for text, call in now.calls.items():
        if (before := was.calls.get(text, call)) != call:
            return f"has {text} of another {_name_difference(before, call)}"
    for name, type in now.columns.items():
        if was.columns.get(name, type) != type:
            return f"has {name} of another type"
    if renamed := _find_renamed_column(was, now):
        return f"has emitted rows with {quote_name(renamed)}, which has another name now"
    return _find_mixed_aggregate(was, now)


def _find_renamed_column(was: Fingerprint, now: Fingerprint) -> str:
    """Return a renamed column of emitted rows: they may have to be retracted under the old name.

    A column that may fail is computed after the step from its calls, which are emitted under their
    texts (`plan/fallible_results`). Older versions emitted the column itself: it is not renamed.
    """
    for name in was.emitted_columns if now.emitted_columns else ():
        calls = was.aggregates.get(name, ())
        is_kept = all(call in now.calls for call in calls)
        if is_kept and name not in now.emitted_columns and not _is_computed_later(calls, now):
            return name
    return ""


def _is_computed_later(calls: Sequence[str], now: Fingerprint) -> bool:
    """Whether each of these calls is emitted under its text."""
    emitted = {of[0] for name, of in now.aggregates.items() if of == (name.rstrip("_"),)}
    return bool(calls) and emitted.issuperset(calls)


def _name_difference(was: StoredCall, now: StoredCall) -> str:
    """Return the name of the property in which two calls, or states of a class, differ."""
    before, after = describe_ttl(was), describe_ttl(now)
    if was.types != now.types or before == after:
        return "type"
    return "ttl" if "ttl" in before + after else "time"


def _find_mixed_aggregate(was: Fingerprint, now: Fingerprint) -> str:
    """Return why an aggregate would mix old and new calls, if one would.

    The calls of an aggregate must all be restored or all be new: otherwise a sum of all rows would
    be combined with the count of the last ones. An aggregate that keeps its name is not new, so its
    calls may not be.
    """
    for name, calls in now.aggregates.items():
        new = [call for call in calls if call not in was.calls]
        if new and name in was.aggregates:
            return f"has another {name}"
        if new and len(new) < len(calls):
            old_call = next(call for call in calls if call in was.calls)
            return f"has {old_call} of all rows, and {new[0]} of none yet: {name} needs both"
    return ""


def _compare_sources(
    content: CheckpointContent,
    now: PartDescriptions,
    plan: nodes.Plan,
    findings: CompatibilityReport,
) -> None:
    """Compare the origins of the sources that have been read."""
    for source, splits in content.state.splits.items():
        if source in findings.options.fresh_parts:
            findings.notes.append(f"{source} is read from its start")
        elif splits and source not in now:
            what = f"the positions of {source}"
            cause = "which is not in the pipeline"
            findings.add_lost_state(what, cause, "add the source again")
        elif splits and (difference := _compare_locations(content.parts[source], now[source])):
            reset = f"--reset-state {source} reads it from its start"
            findings.reject(f"{source} was read elsewhere{difference}", reset)
    for part in plan:
        if isinstance(part, nodes.Source) and part.name not in content.state.splits:
            findings.notes.append(f"{part.name} is new, and read from its start")


def _compare_sinks(
    content: CheckpointContent, now: PartDescriptions, findings: CompatibilityReport
) -> None:
    """Compare the destinations of the sinks that have output to commit."""
    commit = "run the unchanged pipeline once more, which commits it"
    for sink in dict.fromkeys(sink for sink, _ in content.handles):
        what = f"output to commit for {sink}"
        if sink not in now:
            findings.add_lost_state(what, "which is not in the pipeline", commit)
        elif difference := _compare_locations(content.parts[sink], now[sink]):
            findings.add_lost_state(what, f"which writes elsewhere now{difference}", commit)


def _find_late_sinks(
    resumed: Collection[str], content: CheckpointContent, plan: nodes.Plan
) -> Iterator[str]:
    """Yield a line for each sink that does not get the rows of a resumed table."""
    parts = describe_parts(plan)
    for sink in (part for part in plan if isinstance(part, nodes.Sink)):
        step = parts[sink.name].producers[0]
        is_converted = bool(_list_written(step, plan))
        is_table = is_converted or not isinstance(plan.streams[sink.input].kind, nodes.Append)
        is_new = sink.name not in content.parts
        is_new |= is_converted and step not in content.fingerprints
        if is_new and is_table and not find_upstream_parts(sink.name, parts).isdisjoint(resumed):
            yield f"{sink.name} gets the changes from now on: rows that are there are left out"


def _list_written(step: str, plan: nodes.Plan) -> list[str]:
    """Return the sinks that write what a step makes of changes for them; [] for other steps."""
    if not isinstance(get_keyed_operation(plan.part(step)), nodes.ChangelogConversion):
        return []
    readers = {edge.consumer for edge in plan.edges if edge.producer == step}
    return [part.name for part in plan if isinstance(part, nodes.Sink) and part.name in readers]


def _compare_locations(was: PartDescription, now: PartDescription) -> str:
    """Return both locations in lines of their own, or nothing if they are the same."""
    if was.location == now.location:
        return ""
    return f"\n      was: {was.location}\n      is:  {now.location}"
