"""Lists of a YAML file are edited in their style, and all around them stays."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.pipeline.pipeline_tests.text_edits import (
    EditError,
    ListChange,
    apply_edits,
    edit_list,
    edit_scalar,
)
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.composer import compose_document
from headrace.core.pipeline.yaml_document.nodes import (
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)
from headrace.core.pipeline.yaml_document.source_file import SourceText

NEW = ("a: 9", "b: x")


def find_key(node: YamlNode | None, name: str) -> KeyedNode | None:
    """Return the first entry of that key at any depth."""
    if isinstance(node, YamlMapping):
        if entry := node.get(name):
            return KeyedNode(Text(entry.key.value, entry.key), entry.value)
        return next(filter(None, (find_key(e.value, name) for e in node.entries)), None)
    items = node.items if isinstance(node, YamlSequence) else ()
    return next(filter(None, (find_key(item, name) for item in items)), None)


def change(text: str, change: ListChange, key: str = "rows") -> str:
    """Edit the list of a key in a text."""
    file = SourceText("t.yaml", text)
    root, problems = compose_document(file)
    assert not problems
    spot = find_key(root, key)
    assert spot is not None
    edited = apply_edits(text, edit_list(spot, change))
    assert not compose_document(SourceText("t.yaml", edited))[1], edited
    return edited


def check(before: str, after: str, edit: ListChange) -> None:
    assert change(dedent(before), edit) == dedent(after)


def test_items_of_a_block_are_replaced_in_their_style() -> None:
    check(
        """
        t:  # one
          rows: # two
            # three
            - {a: 1, b: y}   # four
            - a: 2  # within
              b: z  # five
            # six
        more: 1
        """,
        """
        t:  # one
          rows: # two
            # three
            - {a: 9, b: x}   # four
            - a: 9
              b: x  # five
            # six
        more: 1
        """,
        ListChange({0: NEW, 1: NEW}),
    )


def test_items_of_a_block_are_removed_with_their_lines() -> None:
    check(
        """
        rows:
        - {a: 1}
        -   a: 2
            b: y
        # after two
        - {a: 3} # three
        end: 1
        """,
        """
        rows:
        - {a: 1}
        # after two
        end: 1
        """,
        ListChange({}, [1, 2]),
    )


def test_items_are_appended_to_a_block_in_the_style_of_the_last_one() -> None:
    check(
        """
        rows:
          - {a: 1}
          -   a: 2
              b: "- no dash"  # two
          # end
        """,
        """
        rows:
          - {a: 1}
          -   a: 2
              b: "- no dash"  # two
          - a: 9
            b: x
          - a: 9
            b: x
          # end
        """,
        ListChange({}, (), [NEW, NEW]),
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_line_breaks_of_the_file_are_used(newline: str) -> None:
    before = "rows:\n  - a: 1\n  - a: 2\nend: 1\n".replace("\n", newline)
    after = "rows:\n  - a: 1\n  - a: 9\n    b: x\nend: 1\n".replace("\n", newline)
    assert change(before, ListChange({}, [1], [])) == before.replace(f"  - a: 2{newline}", "")
    assert change(before, ListChange({1: NEW})) == after


def test_a_file_may_end_without_a_line_break() -> None:
    assert change("rows:\n  - a: 1\n  - a: 2", ListChange({}, [1])) == "rows:\n  - a: 1\n"
    assert change("rows:\n  - a: 1", ListChange({}, (), [("a: 2",)])) == "rows:\n  - a: 1\n  - a: 2"


def test_a_block_without_items_is_an_empty_list_at_its_key() -> None:
    check(
        "rows: # one\n- a: 1 # two\nend: 1\n", "rows: [] # one # two\nend: 1\n", ListChange({}, [0])
    )
    check("rows:\n- a: 1\n\n# three\n", "rows: []\n\n# three\n", ListChange({}, [0]))


def test_items_in_brackets_are_replaced_in_place() -> None:
    check(
        "t: {rows: [{a: 1}, {a: 2},  # two\n  {a: 3}], c: 1}  # c\n",
        "t: {rows: [{a: 1}, {a: 9, b: x},  # two\n  {a: 3}], c: 1}  # c\n",
        ListChange({1: NEW}),
    )


def test_a_list_in_brackets_stays_on_one_line_if_it_fits() -> None:
    check(
        "t: {rows: [{a: 1}, {a: '2'}], c: 1}  # c\n",
        "t: {rows: [{a: '2'}, {a: 9, b: x}], c: 1}  # c\n",
        ListChange({}, [0], [NEW]),
    )


def test_a_long_list_in_brackets_has_an_item_a_line() -> None:
    check(
        "t: {rows: [{a: 1}], c: 1}  # c\n",
        "t: {rows: [{a: 1},\n           "
        + ",\n           ".join(["{a: 9, b: x}"] * 6)
        + "], c: 1}  # c\n",
        ListChange({}, (), [NEW] * 6),
    )


def test_a_long_list_of_a_block_becomes_a_block() -> None:
    check(
        "t:\n  - rows: []  # none\n    c: 1\n",
        "t:\n  - rows:  # none\n" + "      - {a: 9, b: x}\n" * 7 + "    c: 1\n",
        ListChange({}, (), [NEW] * 7),
    )


@pytest.mark.parametrize(
    "text",
    [
        "x: &r [{a: 1}]\nt: {rows: *r}\n",
        "t: &t {rows: [{a: 1}]}\nx: *t\n",
        "rows: &r [{a: 1}]\nx: *r\n",
        "rows: [&r {a: 1}]\nx: *r\n",
        "x: &r {a: 1}\nrows: [*r]\n",
        "x: &r {a: 1}\nrows: [{<<: *r, b: 1}]\n",
        "x: &r 1\nrows:\n  - a: *r\n",
        "rows: !!seq &r [{a: 1}]\n",
    ],
)
def test_what_other_places_refer_to_is_not_edited(text: str) -> None:
    with pytest.raises(EditError, match="anchor"):
        change(text, ListChange({0: NEW}))


def test_what_is_inserted_from_outside_is_not_edited() -> None:
    with pytest.raises(EditError, match="it has "):
        change("rows: [{a: '${env:X}'}]\n", ListChange({0: NEW}))
    assert change("rows: [{a: '$${env:X}'}]\n", ListChange({0: NEW})) == "rows: [{a: 9, b: x}]\n"


def test_a_scalar_is_replaced() -> None:
    file = SourceText("t.yaml", "t: {count: '3', c: 1} # x\n")
    spot = find_key(compose_document(file)[0], "count")
    assert spot is not None
    assert apply_edits(file.text, [edit_scalar(spot.node, "4")]) == "t: {count: 4, c: 1} # x\n"


def to_plain(node: YamlNode | None) -> object:
    """Return a node as Python values."""
    match node:
        case YamlMapping(entries=entries):
            return {each.key.value: to_plain(each.value) for each in entries}
        case YamlSequence(items=items):
            return [to_plain(each) for each in items]
        case YamlScalar(value=value):
            return value
    raise AssertionError(node)


@st.composite
def write_list(draw: st.DrawFn, count: int) -> str:
    """Write a mapping with a list of that many rows, of any style, with comments and more keys."""
    comment = st.sampled_from(["", "", "  # c: [x", " # - {"])
    indent = draw(st.sampled_from(["  ", "    "]))
    flow_row = st.sampled_from(["{a: %d, b: y}", "{a: %d,\n" + indent + "       b: '- # y'}"])
    rows = [draw(flow_row) % at for at in range(count)]
    if count == 0 or draw(st.booleans()):
        separator = draw(st.sampled_from([", ", f",\n{indent}    ", f",  # c\n{indent}    "]))
        if draw(st.booleans()):
            inner = f"rows: [{separator.join(rows)}]"
            return f"t:\n{indent}- {{x: 1, {inner}, y: 2}}{draw(comment)}\nz: 3\n"
        text = f"rows: [{separator.join(rows)}]{draw(comment)}"
        return f"t:\n{indent}- x: 1\n{indent}  {text}\n{indent}  y: 2\nz: 3\n"
    offset = draw(st.sampled_from([indent + "  ", indent + "    "]))
    lines = [f"t:\n{indent}- x: 1\n{indent}  rows:{draw(comment)}"]
    for at, row in enumerate(rows):
        if draw(st.booleans()):
            lines.append(f"{offset}# lead - {at}")
        if draw(st.booleans()):
            lines.append(f"{offset}- {row}{draw(comment)}")
        else:
            gap = draw(st.sampled_from([" ", "   "]))
            inner = offset + " " + " " * len(gap)
            lines.append(f"{offset}-{gap}a: {at}{draw(comment)}\n{inner}b: y{draw(comment)}")
    return "\n".join(lines) + f"\n{indent}  y: 2\nz: 3\n"


@given(st.data(), st.integers(0, 4))
def test_any_list_is_changed_and_all_else_stays(data: st.DataObject, count: int) -> None:
    text = data.draw(write_list(count))
    places = st.sets(st.integers(0, max(count - 1, 0))) if count else st.just(set[int]())
    replaced, removed = data.draw(places), data.draw(places)
    more = data.draw(st.sampled_from([0, 0, 1, 2, 9])) if not removed else 0
    edit = ListChange({at: NEW for at in replaced - removed}, sorted(removed), [NEW] * more)
    before = to_plain(compose_document(SourceText("t.yaml", text))[0])
    assert isinstance(before, dict)
    new = {"a": "9", "b": "x"}
    rows = before["t"][0]["rows"]
    before["t"][0]["rows"] = [
        *(new if at in replaced else row for at, row in enumerate(rows) if at not in removed),
        *[new] * more,
    ]
    after = change(text, edit)
    if len(removed) < count:
        assert after.count("# lead") == text.count("# lead")
    assert to_plain(compose_document(SourceText("t.yaml", after))[0]) == before
