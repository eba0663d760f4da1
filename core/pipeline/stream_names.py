"""The streams that a step reads and the names that a part gives to streams.

The names are found also if the part could not be read, so that a reader of such a stream gets no
problem of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.model import StepKeys
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.nodes import (
    RejectedNode,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)

INPUT_CLAUSES = ("join", "connect", "sql", "iterate")
"""Clauses that name their inputs and replace `from`."""


def find_input_clause(data: Mapping[Text, object]) -> Text | None:
    """Return the key of the clause that replaces `from`, if there is one."""
    return next((key for key in data if key in INPUT_CLAUSES), None)


def list_input_streams(step: StepKeys) -> tuple[Text, ...]:
    """Return the streams that a step reads."""
    if step.sql is not None:
        return tuple(each for each in step.sql.list_tables() if each not in (step.lookups or {}))
    if step.join is not None:
        return step.join.left.from_, step.join.right.from_
    if step.connect is not None:
        return step.connect.left, step.connect.right
    if step.iterate is not None:
        return step.iterate.inputs
    if step.broadcast is not None:
        return (*step.from_[:1], step.broadcast.rules.from_)
    if step.match is not None and step.match.rules is not None:
        return (*step.from_[:1], step.match.rules)
    return step.from_


def has_two_inputs(step: StepKeys) -> bool:
    """Whether the class of the step, if it has one, receives rows of two inputs."""
    return step.connect is not None or step.broadcast is not None


def get_input_aliases(step: StepKeys) -> tuple[Text | None, Text | None]:
    """Return the other names that a step gives to its two inputs; None where it gives none."""
    if step.join is not None:
        return step.join.left.as_, step.join.right.as_
    return None, step.broadcast.rules.as_ if step.broadcast else None


_INPUT_WORDS = {"sql": "tables of the query", "iterate": "input of iterate: iterate: {from: ...}"}


def make_from_conflict(clause: str) -> RuleViolation:
    """Return the violation of a step that names its inputs twice."""
    message = f'"from" does not go with "{clause}"'
    inputs = _INPUT_WORDS.get(clause, f"inputs of {clause}: left and right")
    return RuleViolation(("from",), message, f"the step reads the {inputs}")


def list_stream_names(name: str, node: YamlNode) -> Iterator[str]:
    """Yield the part's own name, its outputs, and its streams of late and failed rows."""
    yield name
    node = unwrap_rejected(node)
    if not isinstance(node, YamlMapping):
        return
    for entry in node.entries:
        if entry.key.value == "iterate":
            yield from _list_loop_names(name, unwrap_rejected(entry.value))
        elif entry.key.value in ("route", "outputs"):
            yield from _output_names(name, unwrap_rejected(entry.value))
        elif entry.key.value == "process" and isinstance(entry.value, YamlMapping):
            outputs = entry.value.get("outputs")
            yield from _output_names(name, outputs.value) if outputs else ()
    yield from list_side_stream_names(node)


def _list_loop_names(name: str, iterate: YamlNode) -> Iterator[str]:
    if isinstance(iterate, YamlMapping) and iterate.get("delta"):
        yield from (f"{name}.workset", f"{name}.solution")
    else:
        yield from (f"{name}.loop", f"{name}.over")


def list_side_stream_names(node: YamlNode) -> Iterator[str]:
    """Yield the names of the streams of late and failed rows, and of rows without a match."""
    node = unwrap_rejected(node)
    for entry in node.entries if isinstance(node, YamlMapping) else ():
        if entry.key.value == "late_to" and isinstance(entry.value, YamlScalar):
            yield from filter(None, [entry.value.value])
        if entry.key.value in ("join", "connect"):
            yield from _late_stream_names(unwrap_rejected(entry.value))
        if entry.key.value in ("on_error", "window", "process", "dedup", "match", "broadcast"):
            yield from _diverted_names(unwrap_rejected(entry.value))
        if entry.key.value == "lookup" and isinstance(entry.value, YamlMapping):
            misses = entry.value.get("on_miss")
            yield from _diverted_names(unwrap_rejected(misses.value)) if misses else ()


def list_parts(section: YamlNode) -> Iterator[tuple[str, YamlNode]]:
    """Yield the parts of a section by name, also if it is rejected or written as a list."""
    section = unwrap_rejected(section)
    if isinstance(section, YamlMapping):
        yield from ((entry.key.value, entry.value) for entry in section.entries)
    for item in section.items if isinstance(section, YamlSequence) else ():
        name = item.get("name") if isinstance(item, YamlMapping) else None
        if name and isinstance(name.value, YamlScalar):
            yield name.value.value, item


def unwrap_rejected(node: YamlNode) -> YamlNode:
    """Return the node itself; for a rejected node, the node that it may mean."""
    return node.inner if isinstance(node, RejectedNode) and node.inner else node


def _output_names(name: str, node: YamlNode) -> Iterator[str]:
    if isinstance(node, YamlMapping):
        yield from (f"{name}.{entry.key.value}" for entry in node.entries)
        yield f"{name}.else"


def _late_stream_names(join: YamlNode) -> Iterator[str]:
    """Yield the streams of late rows of each input, also where one is named for both."""
    late = join.get("late_to") if isinstance(join, YamlMapping) else None
    node = unwrap_rejected(late.value) if late else None
    values = [entry.value for entry in node.entries] if isinstance(node, YamlMapping) else [node]
    yield from (each.value for each in values if isinstance(each, YamlScalar) and each.value)


def _diverted_names(node: YamlNode) -> Iterator[str]:
    if isinstance(node, YamlMapping):
        for entry in node.entries:
            to, value = entry.key.value in ("to", "late_to", "incomplete_to"), entry.value
            if to and isinstance(value, YamlScalar) and value.value:
                yield value.value
