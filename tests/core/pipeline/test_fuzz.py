"""Any file gets an answer, quickly, without an exception, a library's message or a secret."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.core.errors.rendering import render_problem
from tests.core.pipeline.test_loader import WHOLE
from tests.support.pipeline.broken_documents import loaded

LIMIT_S = 1.0
WORDS = """
    { } [ ] : , - ? | > % @ ` ! & * # ' " ~ $ ${ ${env: ${env:TOPIC} ${secret:TOKEN} $${ <<: *bids
    &a *a !x !!python/x !!str null true 1e9 -1 ( ) < not from: steps: name: \ufeff \x85 \u2028 😀 é
    --- ... coalesce(a, decimal(10,2) struct<a: 'it''s' \\
""".split()
BLANKS = [" ", "\n", "\n  ", "\n    ", "\t", "\r\n", "\r", ": ", "- ", " #", "\0", "\x1b[31m"]
FRAGMENTS = st.sampled_from([*WORDS, *BLANKS])
RELAXED = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def check(content: str | bytes, overrides: tuple[str, ...] = ()) -> None:
    """Load a document, and check its problems."""
    started = time.process_time()
    found = loaded(content, overrides)
    said = "\n".join(map(render_problem, found.problems))
    assert time.process_time() - started < LIMIT_S
    assert "hunter2" not in said + repr(found)
    assert "Input should" not in said
    said.encode()
    for problem in found.problems:
        place = problem.location
        assert place is not None and problem.message.strip() == problem.message
        if place.line:
            assert 1 <= place.column <= len(place.text) + 1
            assert place.length >= 1


@RELAXED
@given(st.binary(max_size=300))
def test_random_bytes(content: bytes) -> None:
    check(content)


@RELAXED
@given(st.lists(FRAGMENTS, max_size=60))
def test_random_signs_of_yaml(fragments: list[str]) -> None:
    check("".join(fragments))


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A valid document with a few insertions, deletions, moves and indentations."""
    text = WHOLE
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        lines = text.split("\n")
        line = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["put in", "leave out", "replace", "move", "indent", "drop"])):
            case "put in":
                text = text[:at] + draw(FRAGMENTS) + text[at:]
            case "leave out":
                text = text[:at] + text[at + draw(st.integers(1, 20)) :]
            case "replace":
                text = text[:at] + draw(FRAGMENTS) + text[at + 1 :]
            case "move":
                moved = lines.pop(line)
                lines.insert(draw(st.integers(0, len(lines))), moved)
                text = "\n".join(lines)
            case "indent":
                lines[line] = draw(st.sampled_from([" ", "  ", "\t"])) + lines[line]
                text = "\n".join(lines)
            case "drop":
                text = "\n".join(lines[:line] + lines[line + 1 :])
    return text


@RELAXED
@given(mutations())
def test_mutations_of_a_good_document(text: str) -> None:
    check(text)


@RELAXED
@given(st.lists(st.text("abst.=0'\" {}$:e", max_size=25), max_size=3))
def test_random_overrides(overrides: list[str]) -> None:
    check(WHOLE, tuple(overrides))
