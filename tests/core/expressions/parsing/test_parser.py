"""Parsing of expressions by Spark's grammar; errors have their position."""

from __future__ import annotations

import pytest

from headrace.core.expressions.parsing import syntax_tree
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.typed import ExpressionError


def shape(node: syntax_tree.SyntaxNode) -> str:
    """Format the tree as nested parentheses, operator first."""
    match node:
        case syntax_tree.Literal():
            return f"{node.value!r}:{node.type}"
        case syntax_tree.Name():
            return node.name
        case syntax_tree.Member():
            return f"{shape(node.base)}.{node.name}"
        case syntax_tree.Cast():
            return f"({'try_' if node.is_try else ''}cast {shape(node.operand)} {node.type})"
        case syntax_tree.Star():
            return "*"
        case syntax_tree.TypedText():
            return f"{node.type} {node.text!r}"
        case syntax_tree.Lambda():
            return f"({' '.join(node.parameters)} -> {shape(node.body)})"
        case syntax_tree.CallNode():
            distinct = "distinct " if node.is_distinct else ""
            condition = f" filter {shape(node.filter)}" if node.filter else ""
            return f"({node.name} {distinct}{' '.join(map(shape, node.arguments))}{condition})"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        # Precedence, as Spark has it: & before ^ before |, and || with + and -.
        ("a | b & c", "(| a (& b c))"),
        ("a ^ b | c & d", "(| (^ a b) (& c d))"),
        ("a || b + c", "(+ (|| a b) c)"),
        ("a << b + c", "(<< a (+ b c))"),
        ("a + b * c div d % e", "(+ a (% (div (* b c) d) e))"),
        ("a - b - c", "(- (- a b) c)"),
        ("not a = b and c or d", "(or (and (not (= a b)) c) d)"),
        ("not (a and b) or c", "(or (not (and a b)) c)"),
        ("! a", "(not a)"),
        ("a = b = c", "(= (= a b) c)"),
        ("-a * b", "(* (negative a) b)"),
        ("- -a", "(negative (negative a))"),
        ("~a + +b", "(+ (~ a) (positive b))"),
        ("a and b and c and d", "(and (and a b) (and c d))"),
        ("a == b", "(= a b)"),
        ("a != b", "(<> a b)"),
        # Predicates.
        ("a between b and c and d", "(and (between a b c) d)"),
        ("a not between b and c", "(not (between a b c))"),
        ("a in (b, c)", "(in a b c)"),
        ("a not in (b)", "(not (in a b))"),
        ("a like b escape c", "(like a b c)"),
        ("a not ilike b", "(not (ilike a b))"),
        ("a regexp b", "(rlike a b)"),
        ("like(a, b) and rlike(a, b)", "(and (like a b) (rlike a b))"),
        ("a is null", "(isnull a)"),
        ("a is not null", "(isnotnull a)"),
        ("a is not true", "(not (is true a))"),
        ("a is unknown", "(isnull a)"),
        ("a is distinct from b", "(not (<=> a b))"),
        ("a is not distinct from b", "(<=> a b)"),
        # Calls and irregular forms.
        ("case when a then b when c then d else e end", "(case a b c d e)"),
        ("case a when b then c end", "(case subject a b c)"),
        ("cast(a as decimal(10, 2))", "(cast a decimal(10,2))"),
        ("try_cast(a as int)", "(try_cast a int)"),
        ("a::array<struct<b: int>>", "(cast a array<struct<b:int>>)"),
        ("a.b[c].d", "([] a.b c).d"),
        ("count(*) filter (where a)", "(count * filter a)"),
        ("count(distinct a, b)", "(count distinct a b)"),
        ("first(a) ignore nulls", "(first a True:boolean)"),
        ("first(a ignore nulls)", "(first a True:boolean)"),
        ("extract(hour from a)", "(date_part 'hour':string a)"),
        ("position(a in b)", "(instr b a)"),
        ("substring(a from b for c)", "(substring a b c)"),
        ("trim(both a from b)", "(trim a b)"),
        ("trim(leading from b)", "(ltrim b)"),
        ("trim(a)", "(trim a)"),
        ("timestampdiff(minute, a, b)", "(timestampdiff 'MINUTE':string a b)"),
        ("date_add(day, a, b)", "(timestampadd 'DAY':string a b)"),
        ("date_add(a, b)", "(date_add a b)"),
        ("(a, b)", "(struct a b)"),
        ("a not like any (b, c)", "(or (not (like a b)) (not (like a c)))"),
        ("a ilike all (b)", "(ilike a b)"),
        ("aggregate(a, b, (x, y) -> x + y)", "(aggregate a b (x y -> (+ x y)))"),
        ("transform(a, x -> x + b)", "(transform a (x -> (+ x b)))"),
        # Names that look like keywords stay names.
        ("`a b`.c", "a b.c"),
        ("interval + date", "(+ interval date)"),
        ("left(left, 1)", "(left left 1:int)"),
        ("A", "A"),
        ("COUNT(a)", "(count a)"),
    ],
)
def test_an_expression_reads_as_spark_reads_it(text: str, tree: str) -> None:
    assert shape(parse_expression(text)) == tree


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("1", "1:int"),
        ("-1", "-1:int"),
        ("2147483648", "2147483648:bigint"),
        ("-2147483648", "-2147483648:int"),
        ("9223372036854775808", "Decimal('9223372036854775808'):decimal(19,0)"),
        ("1L", "1:bigint"),
        ("12S", "12:smallint"),
        ("-128Y", "-128:tinyint"),
        ("1.50", "Decimal('1.50'):decimal(3,2)"),
        (".5", "Decimal('0.5'):decimal(1,1)"),
        ("5.", "Decimal('5'):decimal(1,0)"),
        ("0.0", "Decimal('0.0'):decimal(1,1)"),
        ("1e2BD", "Decimal('1E+2'):decimal(3,0)"),
        ("1.5e-3BD", "Decimal('0.0015'):decimal(4,4)"),
        ("1.5e3", "1500.0:double"),
        ("1.5D", "1.5:double"),
        ("1.5F", "1.5:float"),
        ("true", "True:boolean"),
        ("NULL", "None:void"),
        ("'it''s'", '"it\'s":string'),
        ("'a' 'b'", "'ab':string"),
        ('"a"', "'a':string"),
        (r"'a\n\t\\\''", '"a\\n\\t\\\\\'":string'),
        (r"'50\%'", r"'50\\%':string"),
        (r"'\u0041\101\x'", "'AAx':string"),
        (r"'\ud83d\ude00'", "'😀':string"),
        (r"r'\d'", r"'\\d':string"),
        ("X'1F'", "b'\\x1f':binary"),
        ("x'1'", "b'\\x01':binary"),
        ("date '2024-02-29'", "date '2024-02-29'"),
        ("interval 1 hour 30 minutes", "5400000000:interval hour to minute"),
        ("interval '2' months", "2:interval month"),
    ],
)
def test_a_literal_has_the_type_that_spark_gives_it(text: str, literal: str) -> None:
    assert shape(parse_expression(text)) == literal


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("", "wanted an expression, got nothing", "", ""),
        ("price * ", "wanted a value, got the end", "* ", ""),
        ("price * )", 'wanted a value, got ")"', ")", ""),
        ("sum(price", 'wanted ")", got the end', "e", ""),
        ("a b", 'wanted an operator or the end, got "b"', "b", ""),
        ("a as b", 'wanted an operator or the end, got "as"', "as", "name goes before the colon"),
        ("a && b", 'wanted a value, got "&"', "&&", 'write "and"'),
        ("a || | b", 'wanted a value, got "|"', "|", ""),
        ("a ? b : c", '"?" means nothing here', "?", "case when"),
        ("a = 'b", "a string starts here and does not end", "'b", "close it with '"),
        ("`a", "a quoted name starts here and does not end", "`a", "close it with `"),
        ("a /* b", "a comment starts here and does not end", "/* b", ""),
        ("größe", '"größe" is neither a number nor a plain name', "größe", "`größe`"),
        ("2x", '"2x" is neither a number nor a plain name', "2x", ""),
        ("end + 1", 'wanted a value, got "end"', "end", "`end`"),
        ("a in ()", 'wanted at least one value, got ")"', ")", ""),
        ("case a end", 'wanted "when", got "end"', "end", ""),
        ("cast(a as inte)", 'unknown type "inte"', "inte", 'did you mean "int"?'),
        ("cast(a as decimal(40, 2))", "precision", "40", ""),
        ("cast(a, int)", 'wanted "as", got ","', ",", ""),
        ("a is b", "wanted", "b", ""),
        ("sum(a) over (order by b)", "belong into over: of a step", "over", "over: {total"),
        ("128Y", "128 does not fit into tinyint", "128Y", ""),
        ("1e400", "1e400 does not fit into double", "1e400", ""),
        ("1.5L", "1.5 is not a whole number", "1.5L", ""),
        ("X'1G'", "'1G' has characters that are not hex", "X'1G'", ""),
        ("interval 1 day 1 month", "an interval has months, or", "interval 1 day 1 month", ""),
        (r"'\ud800'", "this string holds half a surrogate pair", r"'\ud800'", ""),
    ],
)
def test_an_error_is_reported_at_its_position(text: str, message: str, at: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_expression(text)
    error = raised.value
    assert message in error.message
    assert text[error.span.start : error.span.end] == at
    assert hint in error.hint


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, "not " * 5000 + "a", "+".join("a" * 5000), "-(" * 2000, "a[" * 2000, "~" * 5000],
)
def test_endless_nesting_is_refused_not_followed(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text)


def test_long_chains_of_or_are_not_deep() -> None:
    assert (
        syntax_tree.tree_depth(parse_expression(" or ".join(f"a = {i}" for i in range(5000)))) < 20
    )
