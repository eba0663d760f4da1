"""The writer of JSON texts: characters and numbers as Jackson writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeAlias

Quote: TypeAlias = Callable[[str], str]

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
ESCAPES: Final = {
    **{chr(code): f"\\u{code:04X}" for code in range(32)},
    **{"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"},
}
_BEYOND_16_BITS = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")

# Java writes two digits of the smallest doubles where one would do and two are nearer: 4.9E-324.
_FEW_DIGITS_BELOW = 1e-320


def quote_characters(text: str) -> str:
    """Return a text in quotes, with all characters as they are where JSON allows it."""
    if _ESCAPED.search(text):
        text = _ESCAPED.sub(lambda found: ESCAPES[found[0]], text)
    return f'"{text}"'


def quote_16_bits(text: str) -> str:
    """Return a text in quotes, with characters beyond 16 bits as two escapes."""
    quoted = quote_characters(text)
    return quoted if text.isascii() else _BEYOND_16_BITS.sub(_escape_units, quoted)


def _escape_units(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def format_float(value: float) -> str:
    """Return a double as Java writes it; infinities and NaN are quoted."""
    if not math.isfinite(value):
        return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
    size = abs(value)
    if 0.001 <= size < 1e7 or size == 0:
        return repr(value)
    short = size < _FEW_DIGITS_BELOW
    mantissa, _, exponent = (f"{value:.1e}" if short else f"{value!r}").partition("e")
    if not exponent:
        mantissa, exponent = _shift_point(mantissa)
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}E{int(exponent)}"


def _shift_point(digits: str) -> tuple[str, str]:
    """Return a number without an exponent as one digit, a point and others, and the exponent."""
    sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
    whole, _, fraction = digits.partition(".")
    plain = (whole + fraction).lstrip("0")
    exponent = len(whole) - 1 if whole != "0" else len(plain) - len(fraction) - 1
    return f"{sign}{plain[0]}.{plain[1:].rstrip('0') or '0'}", str(exponent)


def format_json(value: object, quote: Quote) -> str:
    """Return the text of a value that `read_json` gave, without spaces."""
    match value:
        case str():
            return quote(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float() | Decimal():
            return format_float(float(value))
        case tuple():
            return f"{{{','.join(f'{quote(k)}:{format_json(v, quote)}' for k, v in value)}}}"
        case list():
            return f"[{','.join(format_json(each, quote) for each in value)}]"
    return str(value)
