"""The composition of nodes from events: aliases, merge keys, tags, limits."""

import time

import pytest

from headrace.core.pipeline.yaml_document.composer import MAX_DEPTH, MAX_NODES, compose_document
from headrace.core.pipeline.yaml_document.nodes import (
    RejectedNode,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)
from headrace.core.pipeline.yaml_document.source_file import SourceText


def root(text: str) -> YamlNode:
    """Return the root of a document without a problem."""
    node, problems = compose_document(SourceText("p.yaml", text))
    assert node is not None
    assert not problems
    return node


def plain(node: YamlNode) -> object:
    """Return a node as a Python value."""
    match node:
        case YamlScalar():
            return None if node.is_null else node.value
        case YamlSequence():
            return [plain(item) for item in node.items]
        case YamlMapping():
            return {entry.key.value: plain(entry.value) for entry in node.entries}
    raise AssertionError(node)


def messages(text: str) -> list[str]:
    """Return the problems of a text."""
    return [problem.message for problem in compose_document(SourceText("p.yaml", text))[1]]


def test_scalars_stay_as_they_are_written() -> None:
    text = "{a: on, b: no, c: 1:30, d: 2026-01-31, e: 0o7, f: 1_000, g: .inf, h: =, i: 1e3}"
    assert plain(root(text)) == {
        **{"a": "on", "b": "no", "c": "1:30", "d": "2026-01-31", "e": "0o7", "f": "1_000"},
        **{"g": ".inf", "h": "=", "i": "1e3"},
    }


def test_nothing_is_null_a_tilde_or_an_empty_value_without_quotes() -> None:
    text = "a:\nb: ~\nc: null\nd: NULL\ne: ''\nf: 'null'\ng: !!str null\nnull: x\n"
    assert plain(root(text)) == {
        **{"a": None, "b": None, "c": None, "d": None},
        **{"e": "", "f": "null", "g": "null", "null": "x"},
    }


def test_an_alias_is_the_node_it_names() -> None:
    node = root("a: &x {k: [1, 2]}\nb: *x\n")
    assert isinstance(node, YamlMapping)
    assert node.entries[0].value is node.entries[1].value


def test_merge_keys_fill_in_what_is_not_said() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], z: 5}\nd:\n  <<: *a\n"
    merged = plain(root(text))
    assert isinstance(merged, dict)
    assert merged["c"] == {"z": "5", "x": "1", "y": "2"}
    assert merged["d"] == {"x": "1", "y": "2"}
    assert plain(root("{'<<': 1}")) == {"<<": "1"}


def test_core_tags_are_taken_and_others_refused_by_name() -> None:
    text = "a: !!str 5\nb: !!int 5\nc: !!map {}\nd: !!seq []\ne: ! x\n"
    assert plain(root(text)) == {"a": "5", "b": "5", "c": {}, "d": [], "e": "x"}
    assert messages("a: !!python/object/apply:os.system [ls]\n") == [
        'the tag "!!python/object/apply:os.system" is not allowed'
    ]
    assert messages("a: !!binary aGk=\nb: !mine x\n") == [
        'the tag "!!binary" is not allowed',
        'the tag "!mine" is not allowed',
    ]


def test_what_is_refused_is_left_in_its_place() -> None:
    node, _ = compose_document(SourceText("p.yaml", "a: !mine x\nb: 1\n"))
    assert isinstance(node, YamlMapping)
    assert isinstance(node.entries[0].value, RejectedNode)
    assert plain(node.entries[1].value) == "1"


def test_nesting_has_a_limit_also_by_aliases() -> None:
    root("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    deep = f"nested deeper than {MAX_DEPTH} levels"
    assert messages("[" * (MAX_DEPTH + 1)) == [deep]
    half = "[" * 30 + "x" + "]" * 30
    assert messages(f"a: &a {half}\nb: {half.replace('x', '*a')}\n") == [deep]


def test_values_have_a_limit_also_by_aliases_and_merge_keys() -> None:
    too_many = f"more than {MAX_NODES:,} values in one file"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert messages("\n".join(lines)) == [too_many]
    many = ", ".join(f"k{n}: 1" for n in range(1000))
    merges = "\n".join(f"b{n}: {{<<: *a}}" for n in range(1000))
    assert messages(f"a: &a {{{many}}}\n{merges}\n") == [too_many]


def test_an_anchor_cannot_hold_itself() -> None:
    assert messages("a: &a {b: [*a]}\n") == ['"*a" is inside "&a" itself: it would never end']


def test_one_document_is_enough() -> None:
    root("---\na: b\n...\n")
    assert messages("a: b\n---\nc: d\n")[0].startswith("a pipeline is one YAML document")


MEGABYTE = 2**20 - 100
LARGE = {
    "one word": "a" * MEGABYTE,
    "open lists": "[" * MEGABYTE,
    "open mappings": "{" * MEGABYTE,
    "dashes": "- " * (MEGABYTE // 2),
    "lines of dashes": "-\n" * (MEGABYTE // 2),
    "a quote": "a: '" + "x" * MEGABYTE,
    "escapes": 'a: "' + "\\" * MEGABYTE + '"',
    "keys": "".join(f"k{n}: v\n" for n in range(90_000)),
    "one key": "a: b\n" * (MEGABYTE // 5),
    "colons": ": " * (MEGABYTE // 2),
    "questions": "? " * (MEGABYTE // 2),
    "tags": "- !!python/x y\n" * (MEGABYTE // 16),
    "an open list": "a: [\n" + "x,\n" * (MEGABYTE // 4),
    "an open mapping": "a: {\n" + "x: 1\n" * (MEGABYTE // 6),
    "calls": "a: [" + "f(a, " * 50_000 + "]\n",
    "stars": "*" * MEGABYTE,
    "ampersands": "& " * (MEGABYTE // 2),
    "exclamations": "! " * (MEGABYTE // 2),
    "tabs": "\t" * MEGABYTE,
    "odd quotes": "a: 'b\n" * (MEGABYTE // 7),
    "an open alias": "a: 'x" + "\n" * (MEGABYTE - 100) + "'\nb: *c\n",
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_megabyte_of_anything_is_answered_within_seconds(text: str) -> None:
    started = time.process_time()
    compose_document(SourceText("p.yaml", text))
    # A second on a quiet machine; here the point is that nothing is quadratic.
    assert time.process_time() - started < 5
