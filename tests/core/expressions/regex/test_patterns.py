"""Java's patterns: their translation for Rust's engine, and the messages of refusals."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.expressions import ExpressionError, ExpressionErrors, to_expr, type_expression
from headrace.core.expressions.regex import rust
from headrace.core.expressions.regex.errors import RegexError
from headrace.core.expressions.regex.like_patterns import LiteralText, Wildcard, parse_like
from headrace.core.types.data_types import STRING, Field, Schema

SCHEMA = Schema((Field("s", STRING), Field("pattern", STRING)))
LINE_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?"


@pytest.mark.parametrize(
    ("java", "written"),
    [
        ("ab_1", "ab_1"),
        ("a.b", r"a[^\x{A}\x{D}\x{85}\x{2028}\x{2029}]b"),
        ("(?s)a.b", "a(?s:.)b"),
        (r"\d\D", "[0-9][^0-9]"),
        (r"[\w-]", r"[a-zA-Z_0-9\x{2D}]"),
        ("[a-z&&[^aeiou]]", "[[a-z]&&[[^aeiou]]]"),
        ("[]a]", r"[\x{5D}a]"),
        ("(?i)aB[c-e]é", r"[aA][Bb][c-eC-E]\x{E9}"),
        ("a(?i)b|c", "a[bB]|[cC]"),
        ("(a(?i)b)c", "(a[bB])c"),
        ("(?i:a)b", "[aA]b"),
        (r"\Qa.b\E+", r"a\x{2E}b+"),
        (r"\x41\x{1F600}\u0041\ud83d\ude00\0101\cI\e", r"A\x{1F600}A\x{1F600}A\x{9}\x{1B}"),
        (r"\p{Alpha}\p{XDigit}", "[a-zA-Z][0-9a-fA-F]"),
        (r"\P{Lu}", r"[^[\p{Lu}&&\p{Age=13.0}]]"),
        ("(?:ab)*(?<n>c)??", "(?:ab)*(c)??"),
        ("a{2}b{2,}c{2,3}?", "a{2,2}b{2,}c{2,3}?"),
        ("^a|b$", rf"\Aa|b{LINE_END}\z"),
        (r"\Aa\z", r"\Aa\z"),
        ("a]}", r"a\x{5D}\x{7D}"),
    ],
)
def test_a_pattern_is_spelt_out_for_rust(java: str, written: str) -> None:
    assert rust.translate_search(java) == written


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ("(?=a)", 'a look-ahead "(?=", which has no exact translation'),
        ("(?!a)b", 'a look-ahead "(?!"'),
        ("(?<=a)b", 'a look-behind "(?<="'),
        ("(?<!a)b", 'a look-behind "(?<!"'),
        ("(?>a)", 'an atomic group "(?>"'),
        (r"(a)\1", r'the back-reference "\1"'),
        (r"(?<n>a)\k<n>", r'the back-reference "\k"'),
        ("a++", 'a possessive repetition, as in "++"'),
        ("a{2}+", "a possessive repetition"),
        (r"\bword", r'the word boundary "\b", which differs between versions of Java'),
        (r"\Ga", r'"\G"'),
        (r"\X", r'"\X"'),
        ("(?x)a", 'the flag "(?x)"'),
        ("(?iu)a", 'the flag "(?u)"'),
        ("(?m)^a", '"^" under (?m)'),
        (r"\p{InGreek}", r'"\p{InGreek}", which has no exact translation'),
        (r"\p{IsAlphabetic}", r'"\p{IsAlphabetic}"'),
        ("(a*)*", "repeats something that can be empty"),
        (r"\R+", r'repeats "\R"'),
        ("a{2}{3}", "repeats a repetition"),
        ("[a&&]", '"&&" in brackets'),
        ("[a&&[b]c]", '"&&" in brackets'),
        ("a$b", 'continues after "$"'),
        ("(?:a$)+", 'repeats "$"'),
        ("[^b]$", 'takes line ends before or after "$"'),
        (r"\ud83d", "half a surrogate pair"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(java: str, message: str) -> None:
    with pytest.raises(RegexError) as raised:
        rust.translate_search(java)
    assert message in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ("(a", 'opens "(" and does not close it'),
        ("a)", 'has a ")" without an opening "("'),
        ("[a", 'opens "[" and does not close it'),
        ("[", 'opens "[" and does not close it'),
        ("*a", 'has "*" with nothing to repeat'),
        ("a**", 'has "*" with nothing to repeat'),
        ("{", 'has "{" with nothing to repeat'),
        ("a{,2}", '"{,2}" in the pattern is not a repetition'),
        ("a{2,1}", '"{2,1}" in the pattern ends before it starts'),
        ("a{99999999999999}", "is not a repetition"),
        ("a{1", 'opens "{" and does not close it'),
        ("\\", "ends with a single backslash"),
        (r"\y", r'"\y" in the pattern has no meaning'),
        (r"[\b]", r'"\b" has no meaning inside brackets'),
        ("[z-a]", 'a range that ends before it starts: "-a"'),
        (r"[a-\d]", "a range that ends before it starts"),
        (r"\x4", r'"\x" without two hexadecimal digits'),
        (r"\x{110000}", r'"\x{110000}" in the pattern is not a character'),
        (r"\08", r'"\0" without an octal number'),
        (r"\u12", r'"\u" without four hexadecimal digits'),
        (r"\c", r'"\c" without a letter'),
        ("(?P<n>a)", 'has "(?P", which has no meaning'),
        ("(?<1>a)", '"1" is not a valid group name'),
        ("(?<n>a)(?<n>b)", 'two groups of the pattern are named "n"'),
        (r"\p{Foo", r'opens "\p{" and does not close it'),
        ("(" * 60, "more than 50 nested groups"),
        ("[" * 60, "more than 50 nested groups"),
    ],
)
def test_what_java_rejects_is_rejected(java: str, message: str) -> None:
    with pytest.raises(RegexError) as raised:
        rust.translate_search(java)
    assert message in raised.value.message


def test_a_line_end_before_which_a_dollar_stands_is_put_back() -> None:
    pattern, by = rust.translate_replacement(r"(\w)\w*$", "<$1>")
    frame = pl.DataFrame({"s": ["word\r\n", "word\n\n", "word", "word\u2028"]})
    replaced = frame.select(pl.col("s").str.replace_all(pattern, by))["s"].to_list()
    assert replaced == ["<w>\r\n", "word\n\n", "<w>", "<w>\u2028"]


@pytest.mark.parametrize(
    ("by", "written"),
    [
        ("<$1>", "<${1}>"),
        ("$2$1", "${2}${1}"),
        ("$12", "${1}2"),
        (r"\$1", "$$1"),
        (r"a\\b", "a\\b"),
        (r"a\b", "ab"),
        ("", ""),
    ],
)
def test_a_replacement_follows_java(by: str, written: str) -> None:
    assert rust.translate_replacement("(a)(b)", by)[1] == written


@pytest.mark.parametrize(
    ("call", "at", "message"),
    [
        ("regexp_replace(s, 'a', '$1')", "'$1'", "has $1, and the pattern has 0 groups"),
        ("regexp_replace(s, 'a', '$')", "'$'", 'has "$" without a group after it'),
        ("regexp_replace(s, 'a', '\\\\')", "'\\\\'", "ends with a single backslash"),
        ("regexp_replace(s, 'a*', '-')", "'a*'", "matches the empty text as well"),
        ("regexp_replace(s, '(a$)', '$1')", "'(a$)'", 'has "$" inside group 1'),
        ("regexp_replace(s, '(a)+', '$1')", "'(a)+'", "repeats group 1"),
        ("regexp_extract(s, 'a')", "'a'", "has no groups, and group 1 is requested"),
        ("regexp_extract(s, '(a)', 2)", "'(a)'", "has 1 group, and group 2 is requested"),
        ("regexp_extract(s, '(a)', -1)", "'(a)'", "has 1 group, and group -1 is requested"),
        ("regexp_extract(s, 'a|b$', 0)", "'a|b$'", 'has "$" in one of several options'),
        ("regexp_extract_all(s, '^(a)')", "'^(a)'", "a group of every match is requested"),
        ("split(s, 'a*')", "'a*'", "matches the empty text as well"),
        ("s rlike pattern", "pattern", "wants a constant string"),
        ("s like pattern", "pattern", "wants a constant string"),
        ("s like 'a!b' escape '!'", "'a!b'", 'has "!b", where only %, _ and ! can be escaped'),
        ("s like 'a!' escape '!'", "'a!'", 'has a last "!"'),
        ("s like 'a' escape 'ab'", "'ab'", "wanted one character as escape, got 'ab'"),
        ("s like 'a' escape null", "null", "wanted one character as escape, got NULL"),
        ("s rlike '(?:[^a]{500}){500}'", "'(?:[^a]{500}){500}'", "is too large for the engine"),
    ],
)
def test_a_message_points_at_the_argument_that_is_wrong(call: str, at: str, message: str) -> None:
    error = refused(call)
    assert call[error.span.start : error.span.end] == at
    assert message in error.message


def refused(text: str) -> ExpressionError:
    with pytest.raises(ExpressionErrors) as raised:
        type_expression(text, SCHEMA)
    return raised.value.errors[0]


def test_like_is_the_comparison_that_its_pattern_amounts_to() -> None:
    forms = {
        "abc": "==",
        "abc%": "str.starts_with",
        "%abc": "str.ends_with",
        "%abc%": "str.contains",
    }
    for pattern, form in forms.items():
        assert form in str(to_expr(type_expression(f"s like '{pattern}'", SCHEMA)))


def test_an_escaped_wildcard_is_plain() -> None:
    assert parse_like(r"50\%_", "\\") == [LiteralText("50%"), Wildcard.CHARACTER]
    assert parse_like("%%", "%") == [LiteralText("%")]


def test_a_pattern_may_be_computed_from_constants() -> None:
    typed = type_expression("s rlike concat('^', 'a')", SCHEMA)
    frame = pl.DataFrame({"s": ["abc", "ba", None]})
    assert frame.select(to_expr(typed))["s"].to_list() == [True, False, None]


def test_a_null_pattern_makes_all_null() -> None:
    for text in ("s rlike null", "s like null", "regexp_replace(s, null, 'x')", "split(s, null)"):
        typed = type_expression(text, SCHEMA)
        frame = pl.DataFrame({"s": ["abc", None]}).with_columns(r=to_expr(typed))
        assert frame["r"].to_list() == [None, None], text
