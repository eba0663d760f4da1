"""Formats of `format_string`: Java's `%[argument$][flags][width][.precision]conversion`.

`parse_format` parses a format to texts and conversions, and refuses what Java would fail at.
`Conversion.write` formats one value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Context
from decimal import Decimal as PythonDecimal

from headrace.core.types.data_types import (
    BIGINT,
    FLOAT_TYPES,
    INT,
    INTEGER_TYPES,
    NULL,
    SMALLINT,
    TINYINT,
    Type,
)
from headrace.core.types.lazy_dataclass import dataclass

_SPECIFIER = re.compile(
    r"%(?:(?P<argument>[1-9][0-9]*)\$|(?P<same><))?(?P<flags>[-#+ 0,(<]*)"
    r"(?P<width>[1-9][0-9]*)?(?:\.(?P<precision>[0-9]+))?(?P<letter>[a-zA-Z%])"
)
_FLAGS = {
    **dict.fromkeys("sSbBcC", "-"),
    "d": "-+ 0,(",
    **dict.fromkeys("xXo", "-#0"),
    **dict.fromkeys("eE", "-#+ 0("),
    "f": "-#+ 0,(",
    **dict.fromkeys("gG", "-+ 0,("),
    "%": "-",
    "n": "",
}
"""The flags that each conversion takes."""

_BITS: dict[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
_BASES = {"x": ("x", "0x"), "o": ("o", "0")}
_WIDE = 10_000
_SURE_DIGITS = 15
"""Up to this number of digits, those of a double are those of its shortest text."""
_EXACT = Context(prec=2000, rounding=ROUND_HALF_UP)


class PrintfError(Exception):
    """A format that Java does not take, or whose arguments do not fit."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion of an argument; `letter` is in lower case."""

    argument: int
    flags: str
    width: int
    precision: int | None
    letter: str
    is_upper: bool
    bits: int

    @property
    def is_plain(self) -> bool:
        """Whether the text of the value is the result."""
        return self.letter in "sd" and not (
            self.flags or self.width or self.precision is not None or self.is_upper
        )

    def write(self, value: object) -> str:
        """Format a value; for `s` it is a text."""
        match value:
            case None:
                text = "false" if self.letter == "b" else "null"
                return self._pad(self._cut(text))
            case str():
                return self._pad(self._cut(value))
            case bool():
                return self._pad(self._cut(str(value).lower()))
            case int():
                return self._pad(self._write_integer(value))
            case float():
                return self._pad(self._write_float(value))
        raise AssertionError(value)

    def _cut(self, text: str) -> str:
        return text if self.precision is None else _take_units(text, self.precision)

    def _pad(self, text: str) -> str:
        text = text.upper() if self.is_upper else text
        lacking = " " * (self.width - _count_units(text))
        return text + lacking if "-" in self.flags else lacking + text

    def _write_integer(self, value: int) -> str:
        if self.letter == "c":
            return chr(value) if not 0xD800 <= value <= 0xDFFF else "?"
        if self.letter == "d":
            return self._sign(f"{abs(value):{',' if ',' in self.flags else ''}}", value < 0)
        code, prefix = _BASES[self.letter]
        digits = format(value & ((1 << self.bits) - 1), code)
        prefix = prefix if "#" in self.flags else ""
        return prefix + (digits.rjust(self.width - len(prefix), "0") if self._is_zero else digits)

    @property
    def _is_zero(self) -> bool:
        return "0" in self.flags

    def _sign(self, digits: str, is_negative: bool, *, zeros: bool = True) -> str:
        """Put the sign before the digits, and zeros between them if the flags say so."""
        before, after = "", ""
        if is_negative:
            before, after = ("(", ")") if "(" in self.flags else ("-", "")
        elif "+" in self.flags or " " in self.flags:
            before = "+" if "+" in self.flags else " "
        if zeros and self._is_zero:
            digits = digits.rjust(self.width - len(before) - len(after), "0")
        return before + digits + after

    def _write_float(self, value: float) -> str:
        is_negative = str(value).startswith("-")
        if value != value:
            return "NaN"
        if abs(value) == float("inf"):
            return self._sign("Infinity", is_negative, zeros=False)
        if digits := self._write_digits(abs(value)):
            return self._sign(digits, is_negative)
        size = PythonDecimal(repr(abs(value)))
        precision = 6 if self.precision is None else self.precision
        if self.letter == "g":
            digits = self._write_general(size, precision or 1)
        elif self.letter == "f":
            digits = self._write_fixed(size, precision)
        else:
            digits = self._write_scientific(size, precision)
        return self._sign(digits, is_negative)

    def _write_digits(self, size: float) -> str | None:
        """Format by Python, which rounds the exact value; None where Java's digits may differ.

        They do where the shortest text of the value ends halfway, in a 5, and where more digits
        are wanted than it has.
        """
        if self.letter not in "ef" or "#" in self.flags:
            return None
        precision = 6 if self.precision is None else self.precision
        shortest = repr(size)
        whole, _, part = shortest.partition(".")
        if self.letter == "f":
            is_exact = len(whole) + precision <= _SURE_DIGITS or len(part) > precision
            is_halfway = len(part) == precision + 1 and part.endswith("5")
        else:
            is_exact = precision < _SURE_DIGITS
            digits = (whole + part).strip("0")
            is_halfway = len(digits) == precision + 2 and digits.endswith("5")
        if "e" in shortest or is_halfway or not is_exact:
            return None
        return f"{size:{',' if ',' in self.flags else ''}.{precision}{self.letter}}"

    def _write_fixed(self, size: PythonDecimal, precision: int) -> str:
        rounded = size.quantize(PythonDecimal(1).scaleb(-precision), context=_EXACT)
        point = "." if "#" in self.flags and not precision else ""
        return f"{rounded:{',' if ',' in self.flags else ''}f}{point}"

    def _write_scientific(self, size: PythonDecimal, precision: int) -> str:
        rounded = Context(prec=precision + 1, rounding=ROUND_HALF_UP).plus(size)
        exponent = rounded.adjusted() if rounded else 0
        digits = rounded.scaleb(-exponent, _EXACT).quantize(
            PythonDecimal(1).scaleb(-precision), context=_EXACT
        )
        point = "." if "#" in self.flags and not precision else ""
        return f"{digits:f}{point}e{exponent:+03d}"

    def _write_general(self, size: PythonDecimal, precision: int) -> str:
        if not size:
            return self._write_fixed(size, precision - 1)
        exponent = Context(prec=precision, rounding=ROUND_HALF_UP).plus(size).adjusted()
        if -4 <= exponent < precision:
            return self._write_fixed(size, precision - 1 - exponent)
        return self._write_scientific(size, precision - 1)


def _count_units(text: str) -> int:
    """Return the length as Java counts it, in units of UTF-16."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _take_units(text: str, count: int) -> str:
    """Return the first units of UTF-16; of half a character `?` is left."""
    if text.isascii() or _count_units(text) <= count:
        return text[:count]
    return (
        text.encode("utf-16-le")[: 2 * count].decode("utf-16-le", "replace").replace("\ufffd", "?")
    )


def parse_format(text: str, types: Sequence[Type]) -> Iterator[str | Conversion]:
    """Yield the texts and the conversions of a format; raise PrintfError if Java would fail."""
    at, ordinary, last = 0, 0, 0
    while at < len(text):
        sign = text.find("%", at)
        if sign != at:
            yield text[at : sign if sign >= 0 else len(text)]
            at = sign if sign >= 0 else len(text)
            continue
        match = _SPECIFIER.match(text, at)
        letter = match["letter"] if match else ""
        if match is None or letter not in _FLAGS:
            raise PrintfError(f"{text[at : at + 8]!r} is not a conversion that is known here")
        if letter in "%n":
            yield _write_literal(match)
        else:
            is_same = "<" in (match["same"] or "") + match["flags"]
            if match["argument"]:
                last = int(match["argument"])
            elif not is_same:
                last = ordinary = ordinary + 1
            yield _make_conversion(match, last - 1, types)
        at = match.end()


def _write_literal(match: re.Match[str]) -> str:
    """Return the percent sign or the newline that a specifier stands for."""
    flags, width = match["flags"], int(match["width"] or 0)
    is_wrong = set(flags) - {"-"} or match["precision"] or (flags and not width)
    if is_wrong or (match["letter"] == "n" and (flags or width)):
        raise PrintfError(f"{match[0]!r} has flags or a width that it does not take")
    if match["letter"] == "n":
        return "\n"
    return "%".ljust(width) if flags else "%".rjust(width)


def _make_conversion(match: re.Match[str], at: int, types: Sequence[Type]) -> Conversion:
    letter, flags = match["letter"], match["flags"].replace("<", "")
    if not 0 <= at < len(types):
        raise PrintfError(f"{match[0]!r} has no argument")
    width, precision = int(match["width"] or 0), match["precision"]
    is_wrong = (
        set(flags) - set(_FLAGS[letter])
        or len(set(flags)) < len(flags)
        or {"-", "0"} <= set(flags)
        or {"+", " "} <= set(flags)
        or (set(flags) & {"-", "0"} and not width)
        or (precision is not None and letter in "dxXocC")
    )
    if is_wrong:
        raise PrintfError(f"{match[0]!r} has flags or a precision that do not go together")
    if max(width, int(precision or 0)) > _WIDE:
        raise PrintfError(f"{match[0]!r} is wider than {_WIDE:,} characters")
    _check_type(match[0], letter.lower(), types[at])
    bits = _BITS.get(types[at], 0)
    digits = None if precision is None else int(precision)
    return Conversion(at, flags, width, digits, letter.lower(), letter.isupper(), bits)


def _check_type(text: str, letter: str, type: Type) -> None:
    wanted: tuple[tuple[Type, ...], str] | None = None
    if letter in "dxo":
        wanted = (INTEGER_TYPES, "a whole number")
    elif letter in "efg":
        wanted = (FLOAT_TYPES, "a double or float")
    elif letter == "c":
        wanted = ((TINYINT, SMALLINT, INT), "an int, the code of a character")
    if wanted and type not in (*wanted[0], NULL):
        raise PrintfError(f"{text!r} wants {wanted[1]}, got {type}")
