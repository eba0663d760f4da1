"""Texts know their positions, also after interpolation, and mask their secrets."""

import copy
import pickle
from pathlib import Path

import pytest

from headrace.core.pipeline.interpolation import MAX_TOTAL, Interpolator
from headrace.core.pipeline.text import MASK, Text
from headrace.core.pipeline.yaml_document.nodes import YamlScalar
from headrace.core.pipeline.yaml_document.source_file import SourceText

ENVIRONMENT = {"A": "alpha", "EMPTY": "", "HEADRACE_SECRET_TOKEN": "hunter2"}


def interpolated(value: str, folder: Path = Path(), env: dict[str, str] | None = None) -> Text:
    """Return the value of a document `k: VALUE` after all replacements."""
    file = SourceText("p.yaml", f"k: {value}\n")
    scalar = YamlScalar(file, 3, 3 + len(value), value)
    text, problems = Interpolator(folder, ENVIRONMENT | (env or {})).interpolate(scalar)
    assert text is not None, problems
    return text


def complaint(value: str, folder: Path = Path(), env: dict[str, str] | None = None) -> str:
    """Return the problem of a value that cannot be interpolated."""
    scalar = YamlScalar(SourceText("p.yaml", value), 0, len(value), value)
    text, problems = Interpolator(folder, ENVIRONMENT | (env or {})).interpolate(scalar)
    assert text is None
    return f"{problems[0].message} [{problems[0].hint}]"


def pointed_at(text: Text, part: str) -> str:
    """Return the characters of the file that are shown for a part of the value."""
    start = text.index(part)
    place = text.locate(start, start + len(part))
    return place.text[place.column - 1 :][: place.length]


def test_variables_are_put_in() -> None:
    assert interpolated("${env:A}") == "alpha"
    assert interpolated("x${env:A}y${env:A}") == "xalphayalpha"
    assert interpolated("${env:EMPTY}") == ""


def test_a_default_stands_for_what_is_not_set_or_empty() -> None:
    assert interpolated("${env:NONE:-b:c}") == "b:c"
    assert interpolated("${env:EMPTY:-x}") == "x"
    assert interpolated("${env:A:-x}") == "alpha"
    assert interpolated("${env:NONE:-}") == ""


def test_what_is_put_in_is_not_looked_at_again() -> None:
    assert interpolated("${env:NESTED}", env={"NESTED": "${env:A}"}) == "${env:A}"


def test_a_doubled_dollar_stands_for_itself() -> None:
    assert interpolated("$${env:A} $5 $ {x} $$") == "${env:A} $5 $ {x} $$"


def test_a_file_comes_without_its_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_bytes(b"\xef\xbb\xbfprice\r\n> 0\r\n")
    assert interpolated("${file:query.sql}", tmp_path) == "price\r\n> 0"
    assert interpolated(f"${{file:{tmp_path}/query.sql}}") == "price\r\n> 0"


def test_a_value_that_is_a_file_of_sql_has_its_positions_in_it(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text("-- prices\nselect price\nfrom bids\n")
    text = interpolated("${file:query.sql}", tmp_path)
    place = text.locate(text.index("bids"), len(text))
    assert (place.file, place.line, place.column) == (str(tmp_path / "query.sql"), 3, 6)
    assert interpolated("(${file:query.sql})", tmp_path).locate().line == 1


def test_a_secret_comes_from_a_variable_or_a_folder(tmp_path: Path) -> None:
    (tmp_path / "db.password").write_text("s3cret\n")
    text = interpolated("${secret:db.password}", env={"HEADRACE_SECRETS": str(tmp_path)})
    assert text.reveal() == "s3cret"
    assert interpolated("${secret:TOKEN}").reveal() == "hunter2"


def test_a_secret_prints_as_stars_but_is_what_it_is() -> None:
    text = interpolated("user:${secret:TOKEN}")
    assert text.secret
    assert text == "user:hunter2"
    assert text.reveal() == "user:hunter2"
    assert f"{text}{text!r}{text!s}{text:>10}%s" % text == f"{MASK}'{MASK}'{MASK}{MASK:>10}{MASK}"
    assert repr([text]) == f"['{MASK}']"
    assert not interpolated("${env:A}").secret


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_a_copy_keeps_place_and_secret(copied: object) -> None:
    assert callable(copied)
    text = copied(interpolated("a ${secret:TOKEN} b"))
    assert (str(text), text.reveal()) == (MASK, "a hunter2 b")
    assert pointed_at(text, "b") == "b"


def test_an_interpolated_value_is_located_at_its_reference() -> None:
    text = interpolated("x + ${env:A} * prise")
    assert text == "x + alpha * prise"
    assert pointed_at(text, "x") == "x"
    assert pointed_at(text, "alpha") == "${env:A}"
    assert pointed_at(text, "lph") == "${env:A}"
    assert pointed_at(text, "prise") == "prise"
    assert pointed_at(text, "alpha * prise") == "${env:A} * prise"


def test_locations_are_right_after_empty_and_escaped_pieces() -> None:
    text = interpolated("a${env:EMPTY}b$${c} d")
    assert text == "ab${c} d"
    assert pointed_at(text, "b") == "b"
    assert pointed_at(text, "${") == "$${"
    assert pointed_at(text, "d") == "d"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${env:B}", 'the environment variable "B" is not set [set it, or give a default:'),
        ("${env:TOPIK}", "[did you mean ${env:TOPIC}?]"),
        ("${env:9}", 'wanted the name of an environment variable, got "9"'),
        ("${env:}", 'wanted the name of an environment variable, got ""'),
        ("${env:HEADRACE_SECRET_TOKEN}", "is a secret [did you mean ${secret:TOKEN}?]"),
        ("${env:A:-${env:B}}", 'a "${" cannot be inside another'),
        ("${env:A", 'this "${" is not closed'),
        ("${", 'this "${" is not closed'),
        ("${}", 'got "${}"'),
        ("${HOME}", "did you mean ${env:HOME}?"),
        ("${evn:A}", "did you mean ${env:A}?"),
        ("${file:}", "wanted a path, got nothing"),
        ("${file:gone.txt}", 'the file "gone.txt" does not exist []'),
        ("${file:nowhere/gone.txt}", "there is no folder"),
        ("${file:folder}", 'the file "folder" is a folder'),
        ("${file:quary.sql}", 'did you mean "query.sql"?'),
        ("${file:latin}", 'the file "latin" is not UTF-8'),
        ("${secret:TOKN}", 'the secret "TOKN" is not set [did you mean "TOKEN"?]'),
        ("${secret:OTHER}", "set HEADRACE_SECRET_OTHER, or put a file OTHER into the folder"),
        ("${secret:../x}", 'wanted the name of a secret, got "../x"'),
    ],
)
def test_failed_interpolations_are_reported(value: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin").write_bytes(b"\xe9")
    assert message in complaint(value, tmp_path, {"TOPIC": "bids"})


def test_what_is_put_in_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 2**20)
    (tmp_path / "too_large").write_bytes(b"x" * (2**20 + 1))
    assert len(interpolated("${file:large}" * 4, tmp_path)) == MAX_TOTAL
    assert "exceed 4 MB in total" in complaint("${file:large}" * 5, tmp_path)
    assert "is larger than 1024 KB" in complaint("${file:too_large}", tmp_path)


def test_a_variable_that_is_no_utf_8_is_refused() -> None:
    assert "is not UTF-8" in complaint("${env:BYTES}", env={"BYTES": "\udce9"})


def test_a_text_of_our_own_stands_nowhere() -> None:
    assert Text("default").locate().line == 0
