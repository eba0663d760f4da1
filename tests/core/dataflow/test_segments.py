"""The cut of a task's operations into segments."""

from __future__ import annotations

from headrace.core.dataflow.segments import cut_segments
from headrace.core.expressions.typed import Constant, Span
from headrace.core.plan import nodes
from headrace.core.types.data_types import BIGINT, BOOLEAN, Schema

ONE = Constant(BIGINT, False, Span(0, 0), 1)
WHERE = nodes.Filter(Constant(BOOLEAN, False, Span(0, 0), True), "true")
SELECT = nodes.Project("select", (nodes.ComputedColumn("a", ONE),), "1 as a")
EXPLODE = nodes.Explode("a", ONE, outer=False)
MAP = nodes.Map("f.py", "f", "batch", Schema(()), None)


def cut(*steps: tuple[str, tuple[nodes.Operation, ...]]) -> list[tuple[object, ...]]:
    """The segments of steps that read each other: streams, column operations, operation."""
    made, reads = [], "source"
    for name, operations in steps:
        made.append(nodes.Step(name, (reads,), operations, "fail", (), 1))
        reads = name
    return [
        (
            f"{each.input_stream} -> {each.output_stream}",
            each.step.name,
            [name for name, _ in each.columns],
            each.operation,
            each.ends_step,
        )
        for each in cut_segments(made)
    ]


def test_no_steps_have_no_segments() -> None:
    assert cut() == []


def test_column_operations_of_several_steps_are_one_segment() -> None:
    assert cut(("a", (WHERE, SELECT)), ("b", (WHERE,))) == [
        ("a# -> b", "b", ["a", "a", "b"], None, True)
    ]


def test_another_operation_is_a_segment_of_its_own() -> None:
    assert cut(("a", (EXPLODE, WHERE, SELECT, MAP))) == [
        ("a# -> a#1", "a", [], EXPLODE, False),
        ("a#1 -> a#3", "a", ["a", "a"], None, False),
        ("a#3 -> a", "a", [], MAP, True),
    ]


def test_a_run_of_columns_may_end_inside_a_step() -> None:
    assert cut(("a", (WHERE,)), ("b", (SELECT, MAP)), ("c", (MAP,))) == [
        ("a# -> b#2", "b", ["a", "b"], None, False),
        ("b#2 -> b", "b", [], MAP, True),
        ("b -> c", "c", [], MAP, True),
    ]


def test_a_step_without_operations_is_a_segment() -> None:
    assert cut(("a", (WHERE,)), ("b", ()), ("c", (WHERE,))) == [
        ("a# -> a", "a", ["a"], None, True),
        ("a -> b", "b", [], None, True),
        ("b -> c", "c", ["c"], None, True),
    ]
