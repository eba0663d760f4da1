"""The names of the code base: nouns for what is, verbs for what is done, one word a concept."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [
    path.relative_to(ROOT)
    for folder in ("core", "state", "connectors", "cli")
    for path in sorted((ROOT / folder).rglob("*.py"))
]

# Participles, prepositions, adverbs and pronouns: as a name of their own they say no thing.
LOOSE = set(
    """about again anew any apart around aside asked away back begun behind beside besides between
    both done down each early else ended ever every everywhere far few found given gone half held
    here how inside into kept known late later let lost made many meant met more most much near
    off old once one only onward other outside own past said same seen shown so some soon still
    such taken then there through thus till together told too toward under up upon used way well
    what when where whether which while who whole why with without written""".split()
)
# A single participle that is the usual word for a state or an event.
FIELD_WORDS = set("closed committed expected failed finished frozen merged sorted started".split())
FIELD_WORDS |= set("stopped typed nested".split())

# Where one name is right for two classes: the document's part, the plan's node and the class that
# users subclass or call are one thing seen from three sides.
SHARED = (
    "core/pipeline/",
    "core/plan/",
    "core/process/",
    "core/api/window_classes.py",
    "core/testing/",
)


def is_loose(name: str) -> bool:
    bare = name.strip("_")
    if name.startswith("__"):
        return False  # Python's own
    if bare in LOOSE:
        return True
    participle = re.fullmatch(r"[a-z]{3,}(ed|ing)", bare)
    return bool(participle) and bare not in FIELD_WORDS and bare not in EXCEPTIONS


# Words of the field that only look like participles, each with the reason.
EXCEPTIONS = {
    "encoding": "the noun for rows as bytes",
    "counting": "aggregates that count",
    "formatting": "the noun for writing values as text",
    "keyed": "keyed steps, as in a keyed stream",
    "matching": "which rows of two inputs are looked at together",
    "pending": "a state of an operation",
    "rendering": "the noun for showing problems",
    "rounding": "the noun for rounding numbers",
    "shared": "part of the users' API of process classes",
    "unsupported": "what the language does not have",
}


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


@cache
def definitions(path: Path) -> tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return tuple(node for node in ast.walk(parse(path)) if isinstance(node, kinds))


def test_modules_and_functions_are_named_by_more_than_a_participle() -> None:
    odd = [str(path) for path in FILES if is_loose(path.stem)]
    for path in FILES:
        for node in definitions(path):
            if not isinstance(node, ast.ClassDef) and is_loose(node.name):
                odd.append(f"{path}:{node.lineno} {node.name}")
    assert not odd


def test_no_two_public_classes_share_a_name() -> None:
    found = defaultdict(list)
    for path in FILES:
        for node in definitions(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.as_posix())
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert not {
        name: places
        for name, places in twice.items()
        if not all(place.startswith(SHARED) for place in places)
    }


def test_docstrings_open_with_a_noun_or_a_verb() -> None:
    for path in FILES:
        for node in [parse(path), *definitions(path)]:
            text = ast.get_docstring(node) or ""
            assert not re.match(r"(What|That|Who|Whoever|How) ", text), f"{path}: {text[:60]}"


def used_names(path: Path) -> Iterator[str]:
    """The names that a module imports, and those of attributes, as in `click.UsageError`."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr


def named_exceptions(text: str) -> Iterator[str]:
    """The names after "Raise" or "Raises", and all other words that end like an exception's."""
    yield from re.findall(r"\b[A-Z]\w*Error\b", text)
    listed = r"\b[Rr]aises?\s+(?:an? |the |only )?([A-Z]\w*(?:(?:,| or| and|, and|, or) [A-Z]\w*)*)"
    for names in re.findall(listed, " ".join(text.split())):
        yield from re.findall(r"[A-Z]\w*", names)


def test_docstrings_name_exceptions_that_exist() -> None:
    classes = {
        node.name for path in FILES for node in definitions(path) if isinstance(node, ast.ClassDef)
    }
    unknown = []
    for path in FILES:
        known = classes.union(used_names(path), dir(builtins))
        for node in [parse(path), *definitions(path)]:
            names = named_exceptions(ast.get_docstring(node) or "")
            unknown += [f"{path}: {name}" for name in names if name not in known]
    assert not unknown


def test_exceptions_are_found_in_a_list() -> None:
    text = "Close it. Raises NotListening, NoAnswer, and Refusal\nif Kafka is away; raise a Stop."
    assert list(named_exceptions(text)) == ["NotListening", "NoAnswer", "Refusal", "Stop"]


def banned() -> dict[str, str]:
    """The words that docs/glossary.md bans, each with the word to use."""
    found = {}
    for line in (ROOT / "docs/glossary.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[2] not in ("not", "---"):
            found.update({word: cells[0] for word in cells[2].split(", ") if word})
    return found


def test_names_use_no_word_that_the_glossary_bans() -> None:
    words = banned()
    assert len(words) > 10
    for path in FILES:
        for name in (path.stem, *(node.name for node in definitions(path))):
            parts = re.findall(r"[A-Z]?[a-z]+", name)
            for part in parts:
                better = words.get(part.lower())
                assert not better, f"{path}: {name}: write {better!r}, not {part!r}"


@pytest.mark.parametrize("word", ["kept", "_told", "beside", "shown", "together", "dealing"])
def test_a_bare_participle_or_preposition_is_loose(word: str) -> None:
    assert is_loose(word)
