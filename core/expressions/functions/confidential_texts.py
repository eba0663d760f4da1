"""Functions for card numbers and other confidential texts: masking, and the check digit."""

from __future__ import annotations

from headrace.core.expressions.coercion import coerce_to
from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import build_mapping
from headrace.core.expressions.typed import (
    Constant,
    ExpressionError,
    FunctionCall,
    TypedExpression,
)
from headrace.core.types.data_types import NULL, STRING

_DEFAULTS: tuple[str | None, ...] = ("X", "x", "n", None)
"""The characters for capital letters, small letters, digits and others; None keeps them."""


def _resolve_mask(call: TypedCall) -> TypedExpression:
    """Resolve `mask`: a text, then the characters for capitals, small letters, digits, others."""
    from headrace.core.expressions.batch_forms import map_values

    if not 1 <= len(call.arguments) <= 5:
        message = f"mask takes 1 to 5 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, "write mask(text, 'X', 'x', 'n', null)")
    text = coerce_to(call.arguments[0], STRING)
    if text is None:
        message = f"mask wants string, got {call.arguments[0].type}"
        raise ExpressionError(message, call.arguments[0].span, "cast(... as string) converts it")
    given = tuple(map(_read_character, call.arguments[1:]))
    capital, small, digit, other = given + _DEFAULTS[len(given) :]

    def mask(text: str) -> str:
        return "".join(map(mask_character, text))

    def mask_character(character: str) -> str:
        if character.isupper():
            return capital or character
        if character.islower():
            return small or character
        return (digit if character.isdecimal() else other) or character

    form = map_values(mask, STRING)
    return FunctionCall(STRING, text.nullable, call.span, call.name, (text,), form)


def _read_character(argument: TypedExpression) -> str | None:
    """Return the character that replaces others, or None where they stay."""
    value = argument.value if isinstance(argument, Constant) else argument
    if value is None or (isinstance(value, str) and len(value) == 1):
        return value
    hint = "null leaves the characters as they are" if argument.type in (STRING, NULL) else ""
    raise ExpressionError("mask wants one character in quotes, or null", argument.span, hint)


def _check_digit(text: str) -> bool:
    """Return whether the last digit is the one that Luhn's algorithm gives."""
    if not (text.isascii() and text.isdecimal()):
        return False
    digits = [int(character) for character in reversed(text)]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


CONFIDENTIAL_TEXTS: tuple[SqlFunction, ...] = (
    function(
        *(
            "mask",
            "strings",
            "The text with X for each capital letter, x for each small one and n for each digit;"
            " other characters may be given, also for all that is neither, and null keeps them.",
        ),
        example=("mask('abcd-EFGH-8765')", "xxxx-XXXX-nnnn"),
        more=(("mask('AbCD123-@$#', null, 'q', 'd', 'o')", "AqCDdddoooo"),),
        resolve=_resolve_mask,
        signatures=(
            "mask(text: string, [capital: constant string], [small: constant string],"
            " [digit: constant string], [other: constant string]) -> string",
        ),
    ),
    function(
        *("luhn_check", "strings", "Whether a text of digits ends with its Luhn check digit."),
        overload(
            "luhn_check(digits: string) -> boolean",
            build=build_mapping(_check_digit),
            nulls="strict",
        ),
        example=("luhn_check('79927398713')", "true"),
    ),
)
"""The functions of confidential texts."""
