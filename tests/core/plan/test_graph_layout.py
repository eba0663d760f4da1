"""The layout of a graph: layers, few crossings, and parts that do not overlap."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.plan.explain import build_graph_document
from headrace.core.plan.graph_layout import lay_out_graph
from tests.support.paths import ROOT


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Acyclic graphs, whose parts stand before those that read them."""
    parts = [f"p{number}" for number in range(draw(st.integers(1, 12)))]
    pairs = [(one, other) for at, one in enumerate(parts) for other in parts[at + 1 :]]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    return parts, edges


@given(graphs())
def test_rows_flow_forward_and_nothing_overlaps(
    graph: tuple[list[str], list[tuple[str, str]]],
) -> None:
    parts, edges = graph
    layout = lay_out_graph(parts, edges)
    for (start, end), path in zip(edges, layout.paths, strict=True):
        layers = [layout.positions[start][0], *(at for at, _ in path), layout.positions[end][0]]
        assert all(later == before + 1 for before, later in pairwise(layers))
    for layer in range(layout.layers):
        rows = sorted(row for at, row in layout.positions.values() if at == layer)
        assert all(later - before > 0.98 for before, later in pairwise(rows))
    every = [row for _, row in layout.positions.values()]
    assert min(every, default=0) >= 0
    assert max(every, default=0) <= layout.rows - 0.98


def test_lines_that_need_not_cross_do_not() -> None:
    parts = ["a", "b", "c", "d"]
    layout = lay_out_graph(parts, [("a", "d"), ("b", "c")])
    above = layout.positions["a"][1] < layout.positions["b"][1]
    assert above == (layout.positions["d"][1] < layout.positions["c"][1])


def test_a_long_edge_passes_beside_the_parts_between() -> None:
    layout = lay_out_graph(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    ((layer, row),) = layout.paths[2]
    assert layer == layout.positions["b"][0] == 1
    assert abs(row - layout.positions["b"][1]) >= 0.74


def test_a_feedback_edge_leads_back_beside_the_parts_of_its_loop() -> None:
    edges = [("a", "head"), ("head", "body"), ("body", "last"), ("last", "head")]
    layout = lay_out_graph(["a", "head", "body", "last"], edges, feedback=[3])
    assert [layout.positions[name][0] for name in ("a", "head", "body", "last")] == [0, 1, 2, 3]
    assert [layer for layer, _ in layout.paths[3]] == [3, 2, 1]
    for (_, row), name in zip(layout.paths[3], ("last", "body", "head"), strict=True):
        assert abs(row - layout.positions[name][1]) >= 0.74


def test_the_graph_of_a_loop_has_its_feedback_edge() -> None:
    plan = check_pipeline(str(ROOT / "configs" / "loops" / "retry.yaml"), ()).plan
    assert plan is not None
    edges = build_graph_document(plan)["edges"]
    (back,) = [edge for edge in edges if edge["feedback"]]
    assert (back["from"], back["to"]) == ("waited", "tries")


def test_a_source_stands_next_to_its_first_reader() -> None:
    parts = ["a", "late", "b", "c"]
    layout = lay_out_graph(parts, [("a", "b"), ("b", "c"), ("late", "c")])
    assert layout.positions["late"][0] == 1


def test_a_line_of_parts_is_straight() -> None:
    layout = lay_out_graph(["a", "b", "c"], [("a", "b"), ("b", "c")])
    assert layout.positions == {"a": (0, 0.0), "b": (1, 0.0), "c": (2, 0.0)}
    assert (layout.layers, layout.rows) == (3, 1.0)
