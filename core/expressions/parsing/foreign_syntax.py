"""Hints for tokens in the wrong place: the syntax of other languages, with the equivalent here.

`foreign_characters` has the errors at characters that start no token.
"""

from __future__ import annotations

from headrace.core.expressions.parsing.foreign_characters import IF_HINT, PARAMETER_HINT
from headrace.core.expressions.parsing.lexer import SqlToken
from headrace.core.expressions.parsing.syntax_tree import Name, SyntaxNode
from headrace.core.expressions.parsing.token_stream import TokenStream
from headrace.core.expressions.refused_functions import (
    WINDOW_FUNCTIONS_REASON,
    find_refused_family,
)
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types.data_types import MONTH_FIELDS, TIME_FIELDS
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

# Names that are no column here, by their meaning in other languages.
NAME_HINTS = {
    **dict.fromkeys(("none", "nil", "undefined"), "no value is null: test for it with is null"),
    **dict.fromkeys(("now", "sysdate", "systimestamp", "proctime"), 'write "current_timestamp"'),
    "today": 'write "current_date"',
    "localtimestamp": "write localtimestamp()",
    "window_time": "as in window_end - interval 1 microsecond, in a query with a window",
    "array": "as in array(1, 2)",
    "map": "as in map('a', 1)",
}
_PATTERN_OPERATORS = ("like", "ilike", "rlike", "regexp")
_ASSIGNMENT_HINT = "values are not changed in place: an expression is the new value"
_UNQUOTED_PATTERN = compile_pattern(r"\s*/?([^\s()'\"/]*[%^$*.][^\s()'\"/]*)/?")
_DURATION = compile_pattern(
    "(milli|micro)?sec(ond)?s?|min(ute)?s?|hours?|days?|weeks?|months?|years?"
)
_UNIT_NAMES = {
    f"{short}{plural}": f"{unit}{plural}"
    for short, unit in {
        **{"sec": "second", "min": "minute"},
        **{"millisec": "millisecond", "microsec": "microsecond"},
    }.items()
    for plural in ("", "s")
}
"""The short names of units with those that an interval takes."""
_HINTS_AFTER_VALUE = {
    "as": "the name goes before the colon",
    "if": IF_HINT,
    "mod": 'write "%"',
    "xor": 'write "<>"',
    "~": 'write "rlike"',
    **{word: f"as in {word}(text, part)" for word in ("contains", "startswith", "endswith")},
    **dict.fromkeys(("=>", "gte", "ge"), 'write ">="'),
    **dict.fromkeys(("lte", "le"), 'write "<="'),
    **dict.fromkeys(("eq", "equals"), 'write "="'),
    **{"gt": 'write ">"', "lt": 'write "<"', "ne": 'write "<>"'},
}
_HINTS_AFTER_WORD = {
    "in": "in takes its values in parentheses: in ('a', 'b')",
    "exists": "as in exists (select 1 from orders where id = 1)",
    "if": IF_HINT,
}
_CAST_HINT = "as in cast(value as bigint)"
_DOUBLED_SIGN_HINTS = {"&": 'write "and"', "|": 'write "or"', "+": _ASSIGNMENT_HINT}
_COMPARISONS = {
    **{"<>=": "<>", "<=": "<=", ">=": ">=", "==": "=", "<>": "<>"},
    **{"!==": "<>", "!=": "<>", "not=": "<>"},
}
_SQL_FORMS = {
    ("is", "json"): "as in get_json_object(text, '$') is not null",
    ("similar", "to"): 'write "rlike"',
    ("overlaps", "("): "as in start < other_end and other_start < end",
    ("json_object(", "value"): "as in to_json(named_struct('a', 1))",
}
"""Hints by a token, or a call whose first argument was read, and the token after it."""
_ORDER_OPERATORS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class SyntaxHint:
    """A hint; `span` are the characters that it replaces, if they are not the current token."""

    text: str
    span: Span | None = None


def find_hint(tokens: TokenStream) -> SyntaxHint | None:
    """Return a hint for the current token, which does not fit after the previous one."""
    return next((found for rule in _HINT_RULES if (found := rule(tokens))), None)


def _sign_hint(tokens: TokenStream) -> SyntaxHint | None:
    """Return the hint for two signs, adjacent or not, that are one operator here."""
    before, word, ahead = tokens.previous_token, tokens.current_token, tokens.next_token
    if word.text.lower() in ("!", "not"):
        if ahead.text == "~":
            return SyntaxHint('write "not rlike"', word.span.extend_to(ahead.span))
        return _comparison_hint(word, ahead)
    if word.kind == "end" and before.text == "+" == tokens.peek(-2).text:
        return SyntaxHint(_ASSIGNMENT_HINT)
    if word.kind != "symbol" or before.kind != "symbol":
        return SyntaxHint(_ASSIGNMENT_HINT) if word.text + ahead.text == ":=" else None
    adjacent = before.span.end == word.span.start
    if before.text == word.text and adjacent and word.text in _DOUBLED_SIGN_HINTS:
        return SyntaxHint(_DOUBLED_SIGN_HINTS[word.text], before.span.extend_to(word.span))
    if word.text == "=" and before.text in tuple("+-*/%") and adjacent:
        return SyntaxHint(_ASSIGNMENT_HINT)
    return _comparison_hint(before, word)


def _comparison_hint(first: SqlToken, second: SqlToken) -> SyntaxHint | None:
    """Return the hint for two tokens that are one comparison."""
    comparison = _COMPARISONS.get(first.text.lower() + second.text, "")
    span = first.span.extend_to(second.span)
    return SyntaxHint(f'write "{comparison}"', span) if comparison else None


def _pattern_hint(tokens: TokenStream) -> SyntaxHint | None:
    """Return the hint for a pattern without quotes: `like %a%`."""
    for back in (-1, -2, -3):
        like = tokens.peek(back)
        if like.kind == "word" and like.text.lower() in _PATTERN_OPERATORS:
            start = like.span.end
            written = _UNQUOTED_PATTERN.match(tokens.source_text(Span(start, start + 99)))
            if not written:
                return None
            begin = start + len(written[0]) - len(written[0].lstrip())
            span = Span(begin, start + written.end())
            return SyntaxHint(f"put the pattern in quotes: '{written[1]}'", span)
    return None


def _operand_hint(tokens: TokenStream) -> SyntaxHint | None:
    """Return the hint for a comparison that misses an operand, or is written in another way."""
    previous, word = tokens.previous_token, tokens.current_token
    before = previous.text.lower()
    if before in ("and", "or") and word.text in _ORDER_OPERATORS:
        return SyntaxHint(f"write a full comparison on both sides of {before}")
    if before in ("is", "not") and word.kind in ("number", "string"):
        negated = before == "not" and tokens.peek(-2).text.lower() == "is"
        if not negated and before == "not":
            return None
        span = (tokens.peek(-2) if negated else previous).span.extend_to(word.span)
        return SyntaxHint(f'write "{"<>" if negated else "="} {word.text}"', span)
    if word.text.lower() == "similar" and tokens.next_token.text.lower() == "to":
        return SyntaxHint('write "rlike"', word.span.extend_to(tokens.next_token.span))
    is_adjacent = word.span.end == tokens.next_token.span.start
    if word.text == ":" and previous.kind == "symbol" and is_adjacent:
        return SyntaxHint(PARAMETER_HINT, word.span.extend_to(tokens.next_token.span))
    if word.text == ">" and previous.text == "->":
        span = previous.span.extend_to(word.span)
        return SyntaxHint("as in get_json_object(text, '$.name')", span)
    if word.text.lower() in (",", "to") and tokens.peek(-2).text.lower() == "between":
        return SyntaxHint('write "and"')
    if word.text == "," and tokens.peek(-3).text.lower() in ("cast", "try_cast"):
        return SyntaxHint(_CAST_HINT)
    hint = _HINTS_AFTER_WORD.get(before, "") if word.kind != "end" else ""
    return SyntaxHint(hint) if hint else None


def _word_hint(tokens: TokenStream) -> SyntaxHint | None:
    """Return the hint for a word or sign that is not allowed here."""
    before, word = tokens.previous_token, tokens.current_token
    text = word.text.lower()
    if text == "none":
        return SyntaxHint('write "null"')
    if text == "[" and tokens.next_token.kind == "word" and tokens.peek(2).text == "]":
        span = word.span.extend_to(tokens.peek(2).span)
        return SyntaxHint(f"write {tokens.next_token.text}", span)
    if text == "[":
        return SyntaxHint("as in array(1, 2)")
    if before.kind == "number" and word.kind == "word" and _DURATION.fullmatch(text):
        span = before.span.extend_to(word.span)
        return SyntaxHint(f"write interval {before.text} {_UNIT_NAMES.get(text, text)}", span)
    if word.kind == "string" and before.text == "f" and before.span.end == word.span.start:
        return SyntaxHint("as in concat('a', text), or join texts with ||")
    hint = _HINTS_AFTER_VALUE.get(text, "") if word.kind in ("word", "symbol") else ""
    return SyntaxHint(hint) if hint else None


def _lambda_hint(tokens: TokenStream) -> SyntaxHint | None:
    """Return the hint for a lambda function in the syntax of another language."""
    before, word, ahead = tokens.previous_token, tokens.current_token, tokens.next_token
    if word.text == "->" and before.text == ")" and tokens.peek(-3).text == "(":
        name = tokens.peek(-2)
        return SyntaxHint(f"write {name.text} ->", tokens.peek(-3).span.extend_to(word.span))
    if before.text.lower() == "lambda" and word.kind == "word" and ahead.text in (":", ","):
        return SyntaxHint("a lambda function is written x -> x + 1, or (x, y) -> x + y")
    if word.text == "=>" and tokens.peek(-2).text in ("(", ",") and before.kind == "word":
        return SyntaxHint('write "->" for a lambda function, ">=" to compare')
    return None


def _sql_form_hint(tokens: TokenStream) -> SyntaxHint | None:
    """Return the hint for a form of standard SQL that Spark writes in another way."""
    before, word = tokens.previous_token.text.lower(), tokens.current_token.text.lower()
    if word == "to" and tokens.next_token.text.lower() in (*MONTH_FIELDS, *TIME_FIELDS):
        unit = tokens.next_token.text.lower()
        is_ceil = tokens.peek(-3).text.lower() == "ceil"
        time = f"at + interval 1 {unit} - interval 1 microsecond" if is_ceil else "at"
        return SyntaxHint(f"as in date_trunc('{unit}', {time})")
    if before == "collate":
        return SyntaxHint("lower(text) on both sides compares without case")
    if tokens.peek(-2).text.lower() == "between" and before in ("symmetric", "asymmetric"):
        hint = "as in between least(a, b) and greatest(a, b)"
        return SyntaxHint(hint if before == "symmetric" else "remove asymmetric")
    if tokens.peek(-5).text.lower() in ("json_value", "json_query", "json_exists"):
        return SyntaxHint("as in get_json_object(text, '$.a')")
    call = f"{tokens.peek(-3).text.lower()}{tokens.peek(-2).text}"
    hint = _SQL_FORMS.get((before, word)) or _SQL_FORMS.get((call, word), "")
    return SyntaxHint(hint) if hint else None


_HINT_RULES = (
    *(_lambda_hint, _sign_hint, _pattern_hint, _operand_hint, _sql_form_hint, _word_hint),
)


def refuse_constructor(tokens: TokenStream, subject: SyntaxNode) -> None:
    """Refuse `array[a, b]` and `map['a', b]`, after the first value. Raises ExpressionError."""
    if not (isinstance(subject, Name) and subject.name.lower() in ("array", "map")):
        return
    if tokens.is_at(","):
        message = f"{subject.name} takes its values in parentheses"
        raise ExpressionError(message, subject.span, NAME_HINTS[subject.name.lower()])


def query_error(tokens: TokenStream) -> ExpressionError | None:
    """Return the error where a query begins, or None where none does."""
    word, ahead = tokens.current_token, tokens.next_token
    selected = ahead.kind in ("word", "quoted", "number", "string") and not _continues_expression(
        ahead.text
    )
    if not selected and not (ahead.text == "*" and tokens.peek(2).text.lower() == "from"):
        return None
    if word.text.lower() == "distinct":
        message = "distinct is allowed only inside an aggregate"
        return ExpressionError(message, word.span, "as in count(distinct id)")
    if tokens.previous_token.text == "(":
        message = "a query is not allowed inside an expression"
        return ExpressionError(message, word.span, "read that data in a step of its own")
    hint = "write only what follows select"
    return ExpressionError("an expression starts without select", word.span, hint)


def _continues_expression(text: str) -> bool:
    return text.lower() in _CONTINUING_WORDS


_CONTINUING_WORDS = frozenset(
    "and or not between in like ilike rlike regexp is escape then when else end div as from for"
    " asc desc ignore respect".split()
)


def window_function_error(tokens: TokenStream, name: str) -> ExpressionError:
    """Return the error about `over`, after the call of a function."""
    family = find_refused_family(name)
    hint = "key: card, over: {total: sum(price)} adds a column; aggregate makes one row of many"
    if family and family.reason == WINDOW_FUNCTIONS_REASON:
        hint = family.way_out
    return ExpressionError(WINDOW_FUNCTIONS_REASON, tokens.current_token.span, hint)


def star_error(start: Span, end: Span) -> ExpressionError:
    """Return the error about `*` or `table.*` where a value is wanted."""
    hint = "write each column by its name; * is allowed only in count(*)"
    return ExpressionError("* is not a value", start.extend_to(end), hint)
