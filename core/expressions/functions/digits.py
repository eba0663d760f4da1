"""Numbers in other bases and bytes as text: `conv`, base 32, `to_binary`, and bits of bitmaps."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import build_mapping, literal_text
from headrace.core.expressions.functions.charsets import CHARSETS
from headrace.core.expressions.functions.encodings import ENCODINGS
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import BINARY, NULL, STRING

if TYPE_CHECKING:
    import polars as pl

_OTHERS = {row.name: row for row in (*CHARSETS, *ENCODINGS)}
_DIGITS = string.digits + string.ascii_uppercase
_FORMATS = {2: "b", 8: "o", 10: "d", 16: "X"}
_BITS_64 = 1 << 64
_BITMAP_BITS = 8 * 4096


def _convert_base(text: str, source: int, target: int) -> str | None:
    """Return a number in another base, of 64 bits: with a sign if the base is negative."""
    text = text.strip(" ")
    if not text or not 2 <= source <= 36 or not 2 <= abs(target) <= 36:
        return None
    is_negative = text[0] == "-"
    value = min(_parse_digits(text[is_negative:], source), _BITS_64 - 1)
    if is_negative and target > 0:
        value = _BITS_64 - 1 if value >> 63 else -value % _BITS_64
    if target < 0 and value >> 63:
        value, is_negative = -value % _BITS_64, True
    digits = _format_digits(value, abs(target))
    return f"-{digits}" if is_negative and target < 0 else digits


def _parse_digits(text: str, base: int) -> int:
    """Return the number of the digits at the start of a text; 0 if there are none."""
    if text.isascii() and text.isalnum():
        try:
            return int(text, base)
        except ValueError:
            pass
    digits = re.match(f"[{_DIGITS[:base]}]*", text, re.ASCII | re.IGNORECASE)
    return int(digits[0], base) if digits and digits[0] else 0


def _format_digits(value: int, base: int) -> str:
    if base in _FORMATS:
        return format(value, _FORMATS[base])
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = _DIGITS[digit] + digits
    return digits or "0"


_BASE32 = string.ascii_uppercase + "234567"
_TO_PYTHON_DIGITS = str.maketrans(_BASE32 + _BASE32.lower(), 2 * _DIGITS[:32])
_NOT_BASE32 = re.compile(r"[^A-Za-z2-7]")
_TAIL_BYTES = (0, 1, 1, 1, 2, 3, 3, 4)
"""The number of bytes of each number of digits after the last whole group."""


def _encode_base32(value: bytes) -> str:
    import base64

    return base64.b32encode(value).decode("ascii")


def _decode_base32(text: str) -> bytes:
    """Decode the digits before the first `=`; other characters are skipped."""
    digits = _NOT_BASE32.sub("", text.partition("=")[0])
    tail = len(digits) % 8
    size = (len(digits) - tail) * 5 // 8 + _TAIL_BYTES[tail]
    if not digits:
        return b""
    number = int(digits.translate(_TO_PYTHON_DIGITS), 32)
    if tail != 1:
        return (number >> 5 * len(digits) - 8 * size).to_bytes(size, "big")
    # The last byte of a single digit begins with bits of the digit before it.
    return (number >> 5).to_bytes(size - 1, "big") + bytes([number >> 2 & 255])


_BINARY_FORMATS = ("hex", "utf-8", "utf8", "base64")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")


def _decode_strict_base64(text: str) -> bytes | None:
    """Decode base64 with blanks between the digits; None for a text with other characters."""
    import base64
    import binascii

    from headrace.core.expressions.functions.number_patterns import JAVA_SPACES

    if len(text) % 4 == 0 and "=" not in text[:-2]:
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except ValueError:
            pass  # blanks, or no base64
    digits, end, rest = text.partition("=")
    digits = "".join(c for c in digits if c not in JAVA_SPACES) + end + rest
    if not _BASE64.fullmatch(digits):
        return None
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


_STRICT_BASE64 = function(
    *("to_binary", "encodings", ""),
    overload(
        "to_binary(text: string) -> binary",
        build=build_mapping(_decode_strict_base64),
        spark="try_to_binary({0}, 'base64')",
    ),
    example=("to_binary('YWJj')", "abc"),
)


def _resolve_to_binary(call: TypedCall) -> TypedExpression:
    """Resolve to the function of the format; what is malformed is NULL."""
    if not 1 <= len(call.arguments) <= 2:
        message = f"{call.name} takes 1 to 2 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, f"its signature is {_TO_BINARY_SIGNATURE}")
    text, *formats = call.arguments
    if text.type not in (STRING, NULL):
        message = f"{call.name} wants string, got {text.type}"
        raise ExpressionError(message, text.span, f"its signature is {_TO_BINARY_SIGNATURE}")
    alone = TypedCall(call.name, (text,), call.span)
    if formats and isinstance(formats[0], Constant) and formats[0].value is None:
        return Constant(BINARY, True, call.span, None)
    name = (literal_text(formats[0]) or "").lower() if formats else "hex"
    if call.name == "try_to_binary" and name not in _BINARY_FORMATS and name:
        return Constant(BINARY, True, call.span, None)
    match name:
        case "hex":
            return _OTHERS["unhex"].resolve(alone)
        case "utf-8" | "utf8":
            charset = Constant(STRING, False, call.span, "UTF-8")
            arguments = (text, charset)
            return _OTHERS["encode"].resolve(TypedCall("encode", arguments, call.span))
        case "base64":
            return _STRICT_BASE64.resolve(alone)
    message = f"{call.name} wants a format in quotes"
    raise ExpressionError(message, formats[0].span, "the formats are 'hex', 'utf-8' and 'base64'")


_TO_BINARY_SIGNATURE = "to_binary(text: string, [format: constant string]) -> binary"


def _count_bit_position(value: pl.Expr) -> pl.Expr:
    import polars as pl

    distance = pl.when(value > 0).then(value - 1).otherwise(-value)
    # The smallest number has no opposite, and its position is 0 as well.
    return (distance % _BITMAP_BITS).cast(pl.Int64)


def _count_bucket(value: pl.Expr) -> pl.Expr:
    import polars as pl

    after = (value - 1) // _BITMAP_BITS + 1
    return pl.when(value > 0).then(after).otherwise(value.truncdiv(_BITMAP_BITS)).cast(pl.Int64)


def _build_bit_count(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    return map_values(lambda value: int.from_bytes(value, "big").bit_count(), bound.result)


DIGITS: tuple[SqlFunction, ...] = (
    function(
        "conv",
        "encodings",
        "A number of 64 bits in another base, from 2 to 36, with a sign if the new base is"
        " negative. What follows the digits is ignored, and a larger number is the largest. It"
        " takes some 3 us a row, as Python converts each.",
        overload(
            "conv(number: string, from: int, to: int) -> string",
            build=build_mapping(_convert_base),
        ),
        example=("conv('100', 2, 10)", "4"),
        more=(("conv('-10', 16, -10)", "-16"),),
    ),
    function(
        "to_base32",
        "encodings",
        "Bytes, or a text, in base 32. It takes some 3 us a row, as Python encodes each.",
        overload(
            "to_base32(text: string) -> string",
            build=build_mapping(lambda text: _encode_base32(text.encode())),
            nulls="strict",
        ),
        overload(
            "to_base32(bytes: binary) -> string",
            build=build_mapping(_encode_base32),
            nulls="strict",
        ),
        example=("to_base32('foobar')", "MZXW6YTBOI======"),
    ),
    function(
        *("from_base32", "encodings", "The bytes of a text in base 32; others are skipped."),
        overload(
            "from_base32(text: string) -> binary",
            build=build_mapping(_decode_base32),
            nulls="strict",
        ),
        example=("from_base32('MZXW6YTBOI======')", "foobar"),
    ),
    function(
        "to_binary",
        "encodings",
        "The bytes of a text in the format 'hex' (the default), 'base64' or 'utf-8'; NULL if the"
        " text is none of that format.",
        example=("to_binary('6162')", "ab"),
        more=(("to_binary('YWJj', 'base64')", "abc"),),
        aliases=("try_to_binary",),
        resolve=_resolve_to_binary,
        signatures=(_TO_BINARY_SIGNATURE,),
        spark=NO_SPARK_FORM,
    ),
    function(
        *("bitmap_bit_position", "encodings", "The bit of a number in its bitmap of 32,768 bits."),
        overload(
            "bitmap_bit_position(number: bigint) -> bigint", _count_bit_position, nulls="strict"
        ),
        example=("bitmap_bit_position(123)", "122"),
    ),
    function(
        *("bitmap_bucket_number", "encodings", "The bitmap of a number, each of 32,768 numbers."),
        overload("bitmap_bucket_number(number: bigint) -> bigint", _count_bucket, nulls="strict"),
        example=("bitmap_bucket_number(123)", "1"),
    ),
    function(
        *("bitmap_count", "encodings", "The number of bits that are set in bytes."),
        overload(
            "bitmap_count(bitmap: exact binary) -> bigint", build=_build_bit_count, nulls="strict"
        ),
        example=("bitmap_count(x'1010')", "2"),
    ),
)
"""The functions of digits."""
