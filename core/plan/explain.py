"""The output of `headrace explain`: the plan as text, as a graph for Mermaid or DOT, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from headrace.core.pipeline.model import DEFAULT_SLOT
from headrace.core.plan import describe
from headrace.core.plan.describe import describe_state
from headrace.core.plan.graph_layout import lay_out_graph
from headrace.core.plan.nodes import Append, Edge, Plan, PlanPart, Sink, Source, Step, Task
from headrace.core.plan.states import StepStateSummary, get_step_state
from headrace.core.plan.stored_rows import StoredRowSize, measure_stored_rows


def explain(plan: Plan, format: str = "text") -> str:
    """Return the plan in one of FORMATS, ending in a newline."""
    return FORMATS[format](plan)


def _format_text(plan: Plan) -> str:
    return (
        "\n".join((*_head_lines(plan), *_part_lines(plan), *_task_lines(plan), *_edge_lines(plan)))
        + "\n"
    )


def _head_lines(plan: Plan) -> Iterator[str]:
    parts = [describe.get_part_kind(part) for part in plan]
    counts = [(word, parts.count(word)) for word in ("source", "step", "sink")]
    shown = ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts)
    yield f"{plan.name}: {shown}; {plan.key_groups} key groups"


def _part_lines(plan: Plan) -> Iterator[str]:
    for part in plan:
        yield ""
        outside = "" if isinstance(part, Step) else f" ({describe.describe_connector(part)})"
        width = f", parallelism {part.parallelism}"
        yield f"{describe.get_part_kind(part)} {part.name}{outside}{width}"
        yield from (
            f"    {line}" for line in (*describe.describe_part(part), *_state_lines(plan, part))
        )
        if not isinstance(part, Sink):
            for stream in part.outputs:
                name = "" if stream.name == part.name else f" {stream.name}"
                kind = "" if isinstance(stream.kind, Append) else f" {stream.kind}"
                yield f"    ->{name}{kind} {stream.schema}"


def _state_lines(plan: Plan, part: PlanPart) -> Iterator[str]:
    summary = get_step_state(part, plan.key_groups)
    return describe_state(summary, measure_stored_rows(plan, part)) if summary else iter(())


def _task_lines(plan: Plan) -> Iterator[str]:
    yield ""
    yield "tasks"
    for number, task in enumerate(plan.tasks, 1):
        yield f"    {number}  {' > '.join(task.parts)}, {_describe_width(task)}"


def _describe_width(task: Task) -> str:
    """Return the parallelism of a task, and its slot unless that is the default one."""
    slot = "" if task.slot == DEFAULT_SLOT else f", slot {task.slot}"
    return f"parallelism {task.parallelism}{slot}"


def _edge_lines(plan: Plan) -> Iterator[str]:
    yield ""
    yield "edges"
    chained = {pair for task in plan.tasks for pair in pairwise(task.parts)}
    for edge in plan.edges:
        inside = ", inside a task" if (edge.producer, edge.consumer) in chained else ""
        back = ", back to the head of the loop" if edge.is_feedback else ""
        exchange = _describe_exchange(plan, edge)
        yield f"    {edge.stream} > {edge.consumer}: {exchange}{inside}{back}"


def _describe_exchange(plan: Plan, edge: Edge) -> str:
    """Return how rows are exchanged, and which kind of changes they are."""
    kind = plan.streams[edge.stream].kind
    changes = "" if isinstance(kind, Append) else f", {kind}"
    if edge.exchange != "hash":
        return f"{edge.exchange}{changes}"
    by = ", ".join(key.name for key in edge.key) or "no key, all to one subtask"
    return f"hash by {by}{changes}"


def _format_mermaid(plan: Plan) -> str:
    shapes = {"source": ("([", "])"), "step": ("[", "]"), "sink": ("[(", ")]")}
    ids = {part.name: f"n{number}" for number, part in enumerate(plan)}
    lines = ["flowchart LR"]
    for number, task in enumerate(plan.tasks, 1):
        lines.append(f'  subgraph task{number}["task {number}, {_describe_width(task)}"]')
        for name in task.parts:
            left, right = shapes[describe.get_part_kind(plan.part(name))]
            label = "<br/>".join(map(_escape_mermaid, _part_label_lines(plan, plan.part(name))))
            lines.append(f'    {ids[name]}{left}"{label}"{right}')
        lines.append("  end")
    for edge in plan.edges:
        label = _escape_mermaid(_format_edge_label(plan, edge))
        arrow = "-.->" if edge.is_feedback else "-->"
        lines.append(f'  {ids[edge.producer]} {arrow}|"{label}"| {ids[edge.consumer]}')
    return "\n".join(lines) + "\n"


def _escape_mermaid(text: str) -> str:
    """Return text for a quoted label: Mermaid's entities replace quotes and markup."""
    entities = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "&": "#amp;"}
    return "".join(entities.get(character, character) for character in text)


def _format_dot(plan: Plan) -> str:
    lines = [f"digraph {_quote_dot(plan.name)} {{", "  rankdir=LR; node [shape=box];"]
    for number, task in enumerate(plan.tasks, 1):
        title = f"task {number}, {_describe_width(task)}"
        lines.append(f"  subgraph cluster_{number} {{ label={_quote_dot(title)};")
        for name in task.parts:
            label = _quote_dot(*_part_label_lines(plan, plan.part(name)))
            lines.append(f"    {_quote_dot(name)} [label={label}];")
        lines.append("  }")
    for edge in plan.edges:
        ends = f"{_quote_dot(edge.producer)} -> {_quote_dot(edge.consumer)}"
        style = ", style=dashed, constraint=false" if edge.is_feedback else ""
        lines.append(f"  {ends} [label={_quote_dot(_format_edge_label(plan, edge))}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quote_dot(*lines: str) -> str:
    """Return lines as a quoted string of DOT, in which only quotes and backslashes are special."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


def _format_edge_label(plan: Plan, edge: Edge) -> str:
    exchange = _describe_exchange(plan, edge)
    if edge.is_feedback:
        exchange = f"{exchange}, back to the head of the loop"
    return exchange if edge.stream == edge.producer else f"{edge.stream}: {exchange}"


def _part_label_lines(plan: Plan, part: PlanPart) -> list[str]:
    """Return the name, the clauses and the states of a part, one per line."""
    clauses = [line for line in describe.describe_part(part) if not line.startswith("from ")]
    return [f"{describe.get_part_kind(part)} {part.name}", *clauses, *_state_lines(plan, part)]


def _format_json(plan: Plan) -> str:
    return json.dumps(_build_document(plan), indent=2, ensure_ascii=False) + "\n"


def build_graph_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain data, with the places of parts and edges in a drawing.

    parts   as in JSON, each with its task, from 1, its layer and its row
    edges   as in JSON, each with its kind of rows, whether it is inside a task or leads back to the
            head of a loop, and its points
    """
    document = _build_document(plan)
    layout = lay_out_graph(
        [str(part.name) for part in plan],
        [(str(edge.producer), str(edge.consumer)) for edge in plan.edges],
        [number for number, edge in enumerate(plan.edges) if edge.is_feedback],
    )
    chained = {pair for task in plan.tasks for pair in pairwise(task.parts)}
    numbers = {name: at for at, task in enumerate(plan.tasks, 1) for name in task.parts}
    for part in document["parts"]:
        layer, row = layout.positions[part["name"]]
        part |= {"task": numbers[part["name"]], "layer": layer, "row": row}
    for edge, shown, path in zip(plan.edges, document["edges"], layout.paths, strict=True):
        kind = plan.streams[edge.stream].kind
        shown["changes"] = None if isinstance(kind, Append) else str(kind)
        shown["inside_task"] = (edge.producer, edge.consumer) in chained
        shown["feedback"] = edge.is_feedback
        shown["points"] = [list(point) for point in path]
    return {**document, "layers": layout.layers, "rows": layout.rows}


def _build_document(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "key_groups": plan.key_groups,
        "parts": [_part_json(plan, part) for part in plan],
        "edges": [
            {
                "stream": edge.stream,
                "from": edge.producer,
                "to": edge.consumer,
                "exchange": edge.exchange,
                "key": [key.name for key in edge.key],
            }
            for edge in plan.edges
        ],
        "tasks": [
            {"parts": list(task.parts), "parallelism": task.parallelism, "slot": task.slot}
            for task in plan.tasks
        ],
    }


def _part_json(plan: Plan, part: PlanPart) -> dict[str, Any]:
    summary = get_step_state(part, plan.key_groups)
    shown: dict[str, Any] = {
        "name": part.name,
        "kind": describe.get_part_kind(part),
        "parallelism": part.parallelism,
        "does": list(describe.describe_part(part)),
    }
    if not isinstance(part, Step):
        shown["connector"] = part.connector
        shown["format"] = None if part.format is None else str(part.format)
    if isinstance(part, Source):
        shown["columns"] = list(part.decoded_columns)
    if not isinstance(part, Sink):
        shown["outputs"] = [
            {
                "stream": stream.name,
                "kind": type(stream.kind).__name__.lower(),
                "key": [] if isinstance(stream.kind, Append) else list(stream.kind.key or ()),
                "columns": [
                    {"name": f.name, "type": str(f.type), "nullable": f.nullable}
                    for f in stream.schema
                ],
            }
            for stream in part.outputs
        ]
    if summary is not None:
        shown["keeps"] = _state_json(summary, measure_stored_rows(plan, part))
    return shown


def _state_json(summary: StepStateSummary, rows: Mapping[str, StoredRowSize]) -> dict[str, Any]:
    return {
        "key": list(summary.key),
        "states": [
            {
                "name": state.name,
                "shape": state.shape,
                "columns": [{"name": name, "type": type} for name, type in state.columns],
                "aggregates": [asdict(size) for size in state.sizes],
                **({"row": _row_size_json(rows[state.name])} if state.name in rows else {}),
            }
            for state in summary.states
        ],
        "key_groups": [
            {"subtask": subtask, "first": groups[0], "last": groups[-1]}
            for subtask, groups in enumerate(summary.key_group_ranges)
        ],
    }


def _row_size_json(row: StoredRowSize) -> dict[str, Any]:
    return {
        "bytes": row.bytes,
        "columns": [{"name": name, "bytes": size} for name, size in row.columns],
        "assumed": list(row.assumptions),
        "counted": row.is_counted,
    }


FORMATS: dict[str, Callable[[Plan], str]] = {
    "text": _format_text,
    "mermaid": _format_mermaid,
    "dot": _format_dot,
    "json": _format_json,
}
