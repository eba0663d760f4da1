"""Causes in load: backpressure and the part that it comes from, and skew over subtasks."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.diagnosis.figures import SampleSpan
from headrace.core.diagnosis.findings import DiagnosisLimits, Finding
from headrace.core.diagnosis.phrases import describe_clause
from headrace.core.plan import nodes
from headrace.core.worker.report import SubtaskStatistics

MAX_FAIR_SHARE = 0.9
"""The share of rows that is skewed for two subtasks; for more it is twice the fair share."""


def find_load_causes(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the causes in load: skew first, because it may explain backpressure."""
    skewed = list(_find_skew(span, limits))
    yield from skewed
    names = {each.part for each in skewed}
    explained = {
        name for task in span.now.plan.tasks for name in task.parts if task.parts[0] in names
    }
    yield from (f for f in _find_backpressure(span, limits) if f.part not in explained)


def _find_backpressure(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the parts that others wait for: the last ones of each chain of waiting tasks."""
    waits = {task.parts: _measure_wait(span, task) for task in span.now.plan.tasks}
    slowed: dict[str, list[tuple[float, str]]] = {}
    for task in span.now.plan.tasks:
        if waits[task.parts] < limits.high_share:
            continue
        for name in _find_slow_parts(span, limits, task, waits):
            slowed.setdefault(name, []).append((waits[task.parts], task.parts[0]))
    for name, waiting in slowed.items():
        share, first = max(waiting)
        part = span.now.plan.part(name)
        busy = max((span.measure_shares(s).busy for s in span.now.list_subtasks(name)), default=0)
        does = f", which is busy {busy:.0%} of it" if busy >= limits.high_share else ""
        yield Finding(
            "backpressure",
            name,
            f"{first} waits {share:.0%} of the time for {name}{does}",
            _suggest_parallelism(part),
        )


def _measure_wait(span: SampleSpan, task: nodes.Task) -> float:
    """Return the largest share of time that a subtask of the task waits for its consumers."""
    subtasks = span.now.list_subtasks(task.parts[0])
    return max((span.measure_shares(each).backpressured for each in subtasks), default=0.0)


def _find_slow_parts(
    span: SampleSpan, limits: DiagnosisLimits, task: nodes.Task, waits: dict[tuple[str, ...], float]
) -> list[str]:
    """Return the parts that a task waits for: its own sink, or tasks that do not wait in turn."""
    plan = span.now.plan
    last = plan.part(task.parts[-1])
    if isinstance(last, nodes.Sink) and len(task.parts) > 1:
        written = max(map(span.measure_write_share, span.now.list_subtasks(last.name)), default=0)
        if written >= limits.high_share / 2:
            return [last.name]
    readers = [
        each
        for each in plan.tasks
        if any(e.producer in task.parts and e.consumer == each.parts[0] for e in plan.edges)
    ]
    free = [each for each in readers if waits[each.parts] < limits.high_share]
    # A reader without rows in its queue is not what the task waits for.
    full = [each for each in free if _is_any_queue_full(span, each)]
    return [each.parts[0] for each in full or free]


def _is_any_queue_full(span: SampleSpan, task: nodes.Task) -> bool:
    return any(_is_queue_full(each) for each in span.now.list_subtasks(task.parts[0]))


def _is_queue_full(subtask: SubtaskStatistics) -> bool:
    queue = subtask.queue
    return queue is not None and (
        2 * queue.rows >= queue.max_rows or 2 * queue.bytes >= queue.max_bytes
    )


def _suggest_parallelism(part: nodes.PlanPart) -> str:
    """Return the settings that give a part more subtasks or processors."""
    kind = "sink" if isinstance(part, nodes.Sink) else "step"
    # Parts of a query, as in cities@placed, have the parallelism of their step.
    more = f"`parallelism: {2 * part.parallelism}` of {kind} {part.name.partition('@')[0]}"
    if isinstance(part, nodes.Sink):
        return f"{more}, or a faster {part.connector}"
    return f"{more}, and `workers:` in `settings:` for more processors"


def _find_skew(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the parts of which one subtask gets most rows and cannot keep up."""
    plan = span.now.plan
    keyed = {edge.consumer: edge.key for edge in plan.edges if edge.exchange == "hash"}
    for name in (task.parts[0] for task in plan.tasks if task.parallelism > 1):
        subtasks = span.now.list_subtasks(name)
        if name not in keyed or not subtasks:
            continue
        rows = {each.id.index: _count_given_rows(span, each, name) for each in subtasks}
        total, most = sum(rows.values()), max(subtasks, key=lambda each: rows[each.id.index])
        share = rows[most.id.index] / total if total else 0.0
        if total < limits.min_skew_rows or share < min(MAX_FAIR_SHARE, 2 / len(subtasks)):
            continue
        shares = span.measure_shares(most)
        if _is_queue_full(most) or max(shares.busy, shares.backpressured) >= limits.high_share:
            found = f"subtask {most.id.index} of {len(subtasks)} gets {share:.0%} of the rows"
            yield Finding("skew", name, *_describe_skew(name, found, has_key=bool(keyed[name])))


def _count_given_rows(span: SampleSpan, subtask: SubtaskStatistics, part: str) -> int:
    """Return how many rows a subtask was given of late: others may not have had their turn yet."""
    return span.count_rows_in(subtask, part) + (subtask.queue.rows if subtask.queue else 0)


def _describe_skew(name: str, found: str, *, has_key: bool) -> tuple[str, str]:
    """Return the message and the setting of a skew; `found` has its figures."""
    clause = describe_clause("key", name)
    if not has_key:
        message = f"{found}, since the step has no key, and is full"
        return message, f"{clause} divides the rows; without one, `parallelism: 1` suffices"
    setting = (
        f"{clause}: few values have most rows; add a column that divides them, and aggregate the "
        "parts in a second step"
    )
    return f"{found} and is full, the others wait", setting
