"""The options of functions that read and write JSON and CSV: a constant map of names and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import ExpressionError, PolarsForm, Span
from headrace.core.types.data_types import DATE, TIMESTAMP, Type
from headrace.core.types.lazy_dataclass import dataclass

_TRUE, _FALSE = "true", "false"


@dataclass(slots=True)
class TextOptions:
    """Options by their lower-case names. Each that is read is known; the others are refused."""

    function: str
    values: Mapping[str, str]
    span: Span
    known: set[str] = field(default_factory=set)

    def get_text(self, name: str, default: str) -> str:
        """Return an option, or the default."""
        self.known.add(name.lower())
        return self.values.get(name.lower(), default)

    def get_flag(self, name: str, default: bool) -> bool:
        """Return an option that is true or false."""
        text = self.get_text(name, _TRUE if default else _FALSE)
        if text.lower() not in (_TRUE, _FALSE):
            message = f"{self.function}: {name} is true or false, got '{text}'"
            raise ExpressionError(message, self.span)
        return text.lower() == _TRUE

    def get_time_format(self, name: str, *, parses: bool) -> PolarsForm | None:
        """Return the form that parses or formats times by an option; None if it is not given."""
        from headrace.core.expressions.java_time.pattern import TimePatternError
        from headrace.core.expressions.java_time.time_formatter import build_formatter
        from headrace.core.expressions.java_time.time_parser import build_parser

        pattern = self.get_text(name, "")
        if not pattern:
            return None
        try:
            return build_parser(pattern) if parses else build_formatter(pattern)
        except TimePatternError as error:
            raise ExpressionError(f"{self.function}: {name}: {error}", self.span) from None

    def get_text_forms(self) -> dict[Type, PolarsForm]:
        """Return the forms of timestamps and dates as text, where an option has a format."""
        import polars as pl

        forms: dict[Type, PolarsForm] = {}
        if timestamp := self.get_time_format("timestampFormat", parses=False):
            forms[TIMESTAMP] = timestamp
        if date := self.get_time_format("dateFormat", parses=False):
            forms[DATE] = lambda value: date(value.cast(pl.Datetime("us", "UTC")))
        return forms

    def is_failfast(self) -> bool:
        """Return whether a bad text fails; otherwise it gives NULLs."""
        mode = self.get_text("mode", "PERMISSIVE")
        if mode.upper() not in ("PERMISSIVE", "FAILFAST"):
            message = f"{self.function}: the mode {mode} is not supported"
            hint = (
                "with PERMISSIVE, the mode if none is given, a bad text gives NULLs; with FAILFAST"
                " it fails its row"
            )
            raise ExpressionError(message, self.span, hint)
        return mode.upper() == "FAILFAST"

    def refuse_others(self) -> None:
        """Refuse options that are not known."""
        others = sorted(self.values.keys() - self.known)
        if others:
            message = f"{self.function}: the option {others[0]} is not supported"
            hint = f"the options are {', '.join(sorted(self.known))}"
            raise ExpressionError(message, self.span, hint)


def read_options(function: str, bound: BoundArguments, index: int) -> TextOptions:
    """Return the options of a call, whose argument at this index is their map, if there is one."""
    if index >= len(bound.arguments):
        return TextOptions(function, {}, bound.arguments[0].span)
    found = bound.constants[index]
    given: Mapping[object, object] = found if isinstance(found, dict) else {}
    values = {str(name).lower(): str(value) for name, value in given.items() if value is not None}
    return TextOptions(function, values, bound.arguments[index].span)
