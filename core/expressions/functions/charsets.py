"""Bytes of texts: character sets, checks of UTF-8, and the encoding of addresses (URLs).

What fails a job in Spark, a text that has no bytes in a character set or bytes that are no text,
is NULL here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, unquote_plus

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.function import (
    Overload,
    SqlFunction,
    TypedCall,
    function,
    overload,
)
from headrace.core.expressions.functions.arguments import build_mapping
from headrace.core.expressions.functions.common_types import widen_all
from headrace.core.expressions.functions.comparisons import (
    build_null_safe_equality,
    widen_pair,
)
from headrace.core.expressions.functions.logic import build_case_chain
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import BOOLEAN, STRING

if TYPE_CHECKING:
    import polars as pl

_CODECS = {
    "us-ascii": "ascii",
    "iso-8859-1": "latin-1",
    "utf-8": "utf-8",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
    "utf-16": "utf-16-be",
    "utf-32": "utf-32-be",
}
"""Python's names of Spark's character sets; UTF-16 has a mark of its order in front."""

_FAMILY = "encodings"


def _encode_text(text: str, codec: str, mark: bytes) -> bytes | None:
    try:
        return mark + text.encode(codec)
    except UnicodeEncodeError:
        return None


def _decode_bytes(value: bytes, codec: str, is_marked: bool) -> str | None:
    """Decode the bytes; with a mark of the order in front, in that order."""
    if is_marked and value[:2] in (b"\xfe\xff", b"\xff\xfe"):
        codec = "utf-16"
    try:
        return value.decode(codec)
    except UnicodeDecodeError:
        return None


def _check_charset(bound: BoundArguments) -> None:
    charset = bound.constants[1]
    if isinstance(charset, str) and charset.lower() not in _CODECS:
        near = suggest_name(charset.lower(), _CODECS)
        hint = near or f"there are {', '.join(_CODECS).upper()}"
        message = f'unknown character set "{charset}"'
        raise ExpressionError(message, bound.arguments[1].span, hint)


def _build_encode(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    name = str(bound.constants[1]).lower()
    mark = b"\xfe\xff" if name == "utf-16" else b""
    form = map_values(
        lambda text: _encode_text(text, _CODECS[name], mark if text else b""), bound.result
    )
    return lambda text, _: form(text)


def _build_decode(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    name = str(bound.constants[1]).lower()
    form = map_values(
        lambda value: _decode_bytes(value, _CODECS[name], name == "utf-16"), bound.result
    )
    return lambda value, _: form(value)


def _spark_form_of_encode(bound: BoundArguments) -> str:
    """Return no form for a character set that lacks characters: Spark fails on these."""
    whole = str(bound.constants[1]).lower().startswith("utf")
    return AS_WRITTEN if whole else NO_SPARK_FORM


_DECODE = function(
    *(
        "decode",
        _FAMILY,
        "The text of bytes in a character set, NULL if they are none; or, of more arguments, the"
        " value after the first one that equals the first argument, or the last if there is none.",
    ),
    overload(
        "decode(bytes: binary, charset: constant string) -> string",
        build=_build_decode,
        check=_check_charset,
        spark=NO_SPARK_FORM,
    ),
    example=("decode(encode('abc', 'utf-8'), 'utf-8')", "abc"),
    more=(("decode(2, 1, 'one', 2, 'two', 'many')", "two"),),
    signatures=(
        "decode(bytes: binary, charset: constant string) -> string",
        "decode(value: U, search: U, result: T, ..., default: T) -> T",
        "decode(value: U, search: U, result: T, ...) -> string",
    ),
    # Spark does not widen the results of the second form to one type.
    spark=NO_SPARK_FORM,
)


def _resolve_decode(call: TypedCall) -> TypedExpression:
    """Resolve both forms; to Spark, the default that is not given is a text, and so are all."""
    if len(call.arguments) < 3:
        return _DECODE.resolve(call)
    value, *rest = call.arguments
    pairs = len(rest) // 2
    conditions = []
    for search in rest[: 2 * pairs : 2]:
        left, right = widen_pair(replace(call, arguments=(value, search)))
        span = search.span
        form = build_null_safe_equality(left, right)
        conditions.append(FunctionCall(BOOLEAN, False, span, "<=>", (left, right), form))
    default = rest[2 * pairs :] or [Constant(STRING, True, call.span, None)]
    values, common = widen_all(call, (*rest[1 : 2 * pairs : 2], *default))
    arguments = (*conditions, *values)
    return FunctionCall(common, True, call.span, call.name, arguments, build_case_chain)


def _of_texts(
    name: str,
    result: str,
    form: PolarsForm,
    of_bytes: Callable[[bytes], object],
    spark: str = AS_WRITTEN,
) -> tuple[Overload, Overload]:
    """Return the overloads of a test of UTF-8; a text is always valid."""
    return (
        overload(f"{name}(text: string) -> {result}", form, spark=spark),
        overload(f"{name}(bytes: binary) -> {result}", build=build_mapping(of_bytes), spark=spark),
    )


def _is_text(text: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(text.is_not_null()).then(True)


def _is_valid(value: bytes) -> bool:
    return _decode_bytes(value, "utf-8", False) is not None


def _validate(value: bytes) -> str | None:
    return _decode_bytes(value, "utf-8", False)


_INVALID_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")


def _encode_address(text: str) -> str:
    """Encode as a form is sent: all but letters, digits and .-*_ as bytes, spaces as +."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _decode_address(text: str) -> str | None:
    if _INVALID_ESCAPE.search(text):
        try:
            text = re.sub("%(.{0,2})", _rewrite_escape, text, flags=re.DOTALL)
        except ValueError:
            return None
    return unquote_plus(text, errors="replace")


def _rewrite_escape(escape: re.Match[str]) -> str:
    """Return an escape with digits of ASCII, as Java reads it: `%+f` is `%0f`, `%-0` is `%00`.

    Raises ValueError if Java does not read it.
    """
    sign, digits = escape[1][:1], escape[1]
    if sign in ("+", "-"):
        digits = f"0{digits[1:]}"
    number = 0
    for digit in digits if len(digits) == 2 else "%":
        number = 16 * number + _read_digit(digit)
    if sign == "-" and number:
        raise ValueError(escape[0])
    return f"%{number:02x}"


def _read_digit(digit: str) -> int:
    """Return a hexadecimal digit of any script, or a letter of full width, as Java reads it."""
    if "\uff21" <= digit <= "\uff26" or "\uff41" <= digit <= "\uff46":
        digit = chr(ord(digit) - 0xFEE0)
    if digit in "abcdefABCDEF":
        return int(digit, 16)
    if digit > "\uffff":
        raise ValueError(digit)
    return unicodedata.decimal(digit)


def _define_address_decoding(name: str, spark: str) -> SqlFunction:
    return function(
        *(name, _FAMILY, "The text that url_encode has encoded; NULL if an escape is invalid."),
        overload(
            f"{name}(text: string) -> string", build=build_mapping(_decode_address), spark=spark
        ),
        example=(f"{name}('a%2Fb+c')", "a/b c"),
    )


CHARSETS: tuple[SqlFunction, ...] = (
    function(
        *("encode", _FAMILY, "The bytes of a text in a character set, NULL if it lacks one."),
        overload(
            "encode(text: string, charset: constant string) -> binary",
            build=_build_encode,
            check=_check_charset,
            spark=_spark_form_of_encode,
        ),
        example=("encode('abc', 'utf-8')", "abc"),
    ),
    replace(_DECODE, resolve_own=_resolve_decode),
    function(
        *("is_valid_utf8", _FAMILY, "Whether bytes are a text in UTF-8."),
        *_of_texts("is_valid_utf8", "boolean", _is_text, _is_valid),
        example=("is_valid_utf8(x'61')", "true"),
        more=(("is_valid_utf8(x'80')", "false"),),
    ),
    function(
        *("try_validate_utf8", _FAMILY, "Bytes as a text in UTF-8; NULL if they are none."),
        *_of_texts("try_validate_utf8", "string", lambda text: text, _validate),
        example=("try_validate_utf8(x'61')", "a"),
        more=(("try_validate_utf8(x'80')", "NULL"),),
    ),
    function(
        *("validate_utf8", _FAMILY, "The same as try_validate_utf8."),
        *_of_texts("validate_utf8", "string", lambda text: text, _validate, NO_SPARK_FORM),
        example=("validate_utf8(x'61')", "a"),
    ),
    function(
        *("make_valid_utf8", _FAMILY, "Bytes as a text in UTF-8, with � for invalid ones."),
        *_of_texts(
            "make_valid_utf8",
            "string",
            lambda text: text,
            lambda value: value.decode("utf-8", "replace"),
        ),
        example=("make_valid_utf8(x'61C262')", "a�b"),
    ),
    function(
        *("url_encode", _FAMILY, "A text as a part of an address (URL) may have it."),
        overload(
            "url_encode(text: string) -> string",
            build=build_mapping(_encode_address),
            nulls="strict",
        ),
        example=("url_encode('a/b c')", "a%2Fb+c"),
    ),
    _define_address_decoding("url_decode", NO_SPARK_FORM),
    _define_address_decoding("try_url_decode", AS_WRITTEN),
)
"""The functions of character sets and addresses."""
