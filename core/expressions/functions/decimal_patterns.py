"""Patterns of Java's DecimalFormat, as `format_number` takes them: `#,##0.00`."""

from __future__ import annotations

import re
from decimal import Decimal as PythonDecimal

from headrace.core.types.lazy_dataclass import dataclass

_NUMBER_PATTERN = re.compile(
    r"(?P<prefix>[^#0,.;%‰¤'E\-]*)(?P<whole>[#,]*[0,]*)(?P<point>\.(?P<zeros>0*)(?P<rest>#*))?"
    r"(?P<suffix>[^#,.;%‰¤'E\-]*)"
)
_DEFAULT_PATTERN = "#,##0"
_THOUSAND_DIGITS = 3


@dataclass(frozen=True, slots=True)
class DecimalPattern:
    """A pattern of Java's DecimalFormat, of digits, separators and the text around them."""

    prefix: str
    suffix: str
    least_whole: int
    least_part: int
    most_part: int
    group: int
    has_point: bool

    def write(self, value: float | PythonDecimal) -> str:
        """Format a number; half is rounded to the even digit."""
        if value != value:
            return "NaN"
        if self._is_usual and isinstance(value, PythonDecimal):
            whole, _, part = f"{value:,.{self.most_part}f}".partition(".")
            part = part[: self.least_part] + part[self.least_part :].rstrip("0")
            return f"{whole}.{part}" if part else whole
        text = format_fixed(value, self.most_part)
        is_negative = text.startswith("-")
        whole, _, part = text.lstrip("-").partition(".")
        if whole.isdigit():
            whole = self._group(whole.lstrip("0").rjust(self.least_whole, "0"))
            part = part[: self.least_part] + part[self.least_part :].rstrip("0")
            point = "." if part or self.has_point else ""
            text = f"{whole}{point}{part}" if whole or part else "0"
        else:
            text = "∞"
        return f"{'-' if is_negative else ''}{self.prefix}{text}{self.suffix}"

    @property
    def _is_usual(self) -> bool:
        """Whether it is such as #,##0.00, which Python formats."""
        is_plain = not (self.prefix or self.suffix or self.has_point)
        return is_plain and self.least_whole == 1 and self.group == _THOUSAND_DIGITS

    def _group(self, digits: str) -> str:
        if not self.group or len(digits) <= self.group:
            return digits
        first = len(digits) % self.group
        groups = [digits[at : at + self.group] for at in range(first, len(digits), self.group)]
        return ",".join([digits[:first], *groups] if first else groups)


def format_fixed(value: float | PythonDecimal, places: int) -> str:
    """Format with that many digits after the point; half is rounded to the even digit.

    A double has the digits of its shortest text, and what is rounded is its exact value.
    """
    if isinstance(value, float) and abs(value) < 10.0 ** (15 - places):
        return f"{value:.{places}f}"
    exact = PythonDecimal(repr(value)) if isinstance(value, float) else value
    exponent = exact.as_tuple().exponent
    if isinstance(value, float) and isinstance(exponent, int) and -exponent > places:
        return f"{value:.{places}f}"
    return f"{exact:.{places}f}" if exact.is_finite() else str(value)


def parse_decimal_pattern(text: str) -> DecimalPattern | None:
    """Parse a pattern of Java's DecimalFormat; None for what is none, or has no meaning here.

    >>> parse_decimal_pattern("$#,##0.00").write(1234.5)
    '$1,234.50'
    """
    match = _NUMBER_PATTERN.fullmatch(text or _DEFAULT_PATTERN)
    if match is None:
        return None
    whole, _, last = match["whole"].rpartition(",")
    digits = (whole + last).replace(",", "")
    if "," in match["whole"] and not last:
        return None
    hashes, zeros = digits.count("#"), digits.count("0") + len(match["zeros"] or "")
    rest = len(match["rest"] or "")
    if match["point"] and not zeros and (hashes or rest):
        # Without a zero, the last digit before the point is one, or the first one after it.
        rest = hashes + rest - max(len(digits), 1)
        hashes, zeros = max(len(digits), 1) - 1, 1
    total = hashes + zeros + rest
    return DecimalPattern(
        match["prefix"],
        match["suffix"],
        (len(digits) if match["point"] else total) - hashes,
        max(0, hashes + zeros - len(digits)) if match["point"] else 0,
        total - len(digits) if match["point"] else 0,
        len(last) if "," in match["whole"] else 0,
        bool(match["point"]) and len(digits) in (0, total),
    )
