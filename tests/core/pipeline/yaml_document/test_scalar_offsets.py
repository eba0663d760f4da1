"""Every character of every scalar has its position in the file, whatever the scalar's style."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.composer import compose_document
from headrace.core.pipeline.yaml_document.nodes import YamlMapping, YamlScalar
from headrace.core.pipeline.yaml_document.scalar_offsets import compute_offsets
from headrace.core.pipeline.yaml_document.source_file import SourceText

BODY = st.text("ab x\n\t'\"\\:#,-1é😀", min_size=1, max_size=30)
INDENT = st.sampled_from([" ", "  ", "    "])
PROPERTIES = st.sampled_from(["", "&anchor ", "!!str ", "&a !!str ", "!!str # comment\n  "])
ESCAPES = st.sampled_from(
    ["\\\\", "\\n", "\\t", "\\u00e9", "\\U0001F600", "\\x41", "\\ ", "\\\n ", "\\/", "\\_"]
)
HEADERS = st.sampled_from(["", "-", "+", "2", "1-", "+2", "3"])
BLANK_LINES = st.sampled_from(["", "\n\n", "\n \n"])
BREAKS = st.sampled_from(["\n", "\r\n"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A document with one scalar of any style under the key `k`."""
    body, indent = draw(BODY), draw(INDENT)
    inside = body.replace("\n", "\n" + indent)
    style = draw(st.sampled_from(["plain", "single", "double", "|", ">"]))
    if style == "plain":
        value = inside
    elif style == "single":
        value = "'" + inside.replace("'", "''") + "'"
    elif style == "double":
        value = '"' + inside.replace("\\", draw(ESCAPES)).replace('"', '\\"') + '"'
    else:
        value = f"{style}{draw(HEADERS)}\n{indent}{inside}" + draw(BLANK_LINES)
    text = f"k: {draw(PROPERTIES)}{value}" + draw(st.sampled_from(["", "\nz: 1"]))
    return text.replace("\n", draw(BREAKS))


def scalars(text: str) -> list[YamlScalar]:
    """All scalars of a document that is a mapping; none of one that is not YAML."""
    root, _ = compose_document(SourceText("p.yaml", text))
    entries = root.entries if isinstance(root, YamlMapping) else ()
    return [node for e in entries for node in (e.key, e.value) if isinstance(node, YamlScalar)]


@settings(max_examples=1000, deadline=None)
@given(documents())
def test_every_character_is_found_again(text: str) -> None:
    for scalar in scalars(text):
        found = compute_offsets(scalar)
        assert len(found) == len(scalar.value)
        assert [*found] == sorted(found)
        for character, (start, end) in zip(scalar.value, found, strict=True):
            written = text[start:end]
            assert scalar.start <= start < end <= len(text)
            same = written == character
            folded = character in " \n" and written[0] in "\r\n"
            escaped = written[0] in "\\'"
            assert same or folded or escaped, (character, written)


def place_of(document: str, part: str) -> tuple[int, int, str]:
    """Return line, column and characters of the position of a part of the value of `k`."""
    scalar = scalars(document)[1]
    start = scalar.value.index(part)
    place = Text(scalar.value, scalar).locate(start, start + len(part))
    return place.line, place.column, place.text[place.column - 1 :][: place.length]


def test_a_part_of_a_folded_value_is_on_its_own_line() -> None:
    text = "k: >-\n    price > 0\n    and prise < 3\n\n    or x\n"
    assert scalars(text)[1].value == "price > 0 and prise < 3\nor x"
    assert place_of(text, "prise") == (3, 9, "prise")
    assert place_of(text, "x") == (5, 8, "x")


def test_a_part_of_a_literal_value_is_on_its_own_line() -> None:
    assert place_of("k: |2\n   a\n    b + c\n", "b + c") == (3, 5, "b + c")


def test_a_part_of_a_plain_value_of_several_lines_is_on_its_own_line() -> None:
    assert place_of("k: price > 0\n   and\n   prise < 3\n", "prise") == (3, 4, "prise")


def test_a_part_of_a_quoted_value_is_located_after_escapes() -> None:
    assert place_of("k: 'a = ''it'' and prise'\n", "prise") == (1, 20, "prise")
    assert place_of('k: "a\\tb \\u00e9 prise"\n', "prise") == (1, 17, "prise")
    assert place_of('k: "a \\\n   prise"\n', "prise") == (2, 4, "prise")


def test_a_part_over_two_lines_is_pointed_at_on_the_first() -> None:
    assert place_of("k: >\n  a +\n  b\n", "+ b") == (2, 5, "+")


def test_the_end_of_a_value_is_after_its_last_character() -> None:
    scalar = scalars("k: a +\n")[1]
    place = Text(scalar.value, scalar).locate(3, 3)
    assert (place.column, place.length) == (7, 1)


def test_all_of_a_value_is_pointed_at_without_its_anchor_and_quotes() -> None:
    scalar = scalars("k: &a !!str 'value'\n")[1]
    place = Text(scalar.value, scalar).locate()
    assert place.text[place.column - 1 :][: place.length] == "value"


def test_a_character_of_a_very_long_value_is_pointed_at() -> None:
    scalar = scalars("k: " + "x" * 200_000 + "\n")[1]
    assert Text(scalar.value, scalar).locate(100_000, 100_001).column == 100_004


def test_a_very_long_value_with_escapes_is_pointed_at_where_it_begins() -> None:
    scalar = scalars('k: "\\n' + "x" * 200_000 + '"\n')[1]
    assert Text(scalar.value, scalar).locate(100_000, 100_001).column == 4
