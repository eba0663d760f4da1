"""The output of a user class: rows collected in lists, by column, each with its origin.

`out(...)` is a function generated for the columns of its output, so a call costs little more than
its appends; its parameters are the columns, so Python itself rejects a misspelt one.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.api.user_code import get_polars_errors, get_text, is_value_of
from headrace.core.errors.problems import suggest_name
from headrace.core.operators.process.call_context import CallContext
from headrace.core.operators.process.state_values import (
    build_unknown_field_check,
    copy_value,
    is_nested,
)
from headrace.core.types.data_types import Field, Schema, quote_name, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.frames import pick_columns
from headrace.core.types.row_order import number_parts

if TYPE_CHECKING:
    import polars as pl

MAIN_OUTPUT = ""
"""The name of the step's own output among the others."""


class OutputValueError(Exception):
    """A value emitted to an output is not of its column's type; `at` is its origin's number."""

    def __init__(self, message: str, at: int, output: str) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.output = output


class Collector:
    """The collected rows of one output."""

    def __init__(self, name: str, schema: Schema, call_context: CallContext) -> None:
        self.name = name
        self.schema = schema
        self.display_name = f"out.{name}" if name else "out"
        self.columns: list[list[Any]] = [[] for _ in schema]
        self.origins: list[int] = []
        """The number of the row or timer that emitted each row (`CallContext.at`)."""
        self._types = [to_polars(field.type) for field in schema]
        self.emit = self._build_emit(call_context)

    def __len__(self) -> int:
        return len(self.origins)

    def truncate(self, rows: int) -> None:
        """Drop all rows but the first ones."""
        for values in (*self.columns, self.origins):
            del values[rows:]

    def validate(self, first: int) -> None:
        """Validate the rows after the first ones one by one. Raises OutputValueError."""
        for field, type, values in zip(self.schema, self._types, self.columns, strict=True):
            for at in range(first, len(values)):
                self._validate_value(field, type, values[at], self.origins[at])

    def take(self) -> tuple[pl.DataFrame, list[int]]:
        """Remove and return the rows and their origins. Raises OutputValueError."""
        import polars as pl

        series = []
        for field, type, values in zip(self.schema, self._types, self.columns, strict=True):
            series.append(self._build_series(field, type, values))
        origin = self.origins.copy()
        self.truncate(0)
        return pl.DataFrame(series), origin

    def _build_series(self, field: Field, type: pl.DataType, values: list[Any]) -> pl.Series:
        import polars as pl

        try:
            series = pl.Series(field.name, values, dtype=type, strict=True)
        except get_polars_errors():
            for value, at in zip(values, self.origins, strict=True):
                self._validate_value(field, type, value, at)
            raise
        if not field.nullable and series.null_count():
            for value, at in zip(values, self.origins, strict=True):
                self._validate_value(field, type, value, at)
        return series

    def _validate_value(self, field: Field, type: pl.DataType, value: object, at: int) -> None:

        wanted = f'{self.display_name}: column "{field.name}" is declared {field.type}'
        if value is None:
            if not field.nullable:
                raise OutputValueError(f"{wanted} not null, and got None", at, self.name)
            return
        if not is_value_of(value, type):
            actual = f"{value!r:.200} ({value.__class__.__name__})"
            raise OutputValueError(f"{wanted}, and got {actual}", at, self.name)

    def _build_emit(self, call_context: CallContext) -> Callable[..., None]:
        names = self.schema.names
        if not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
            return self._build_generic_emit(call_context)
        appends = {f"__a{at}": values.append for at, values in enumerate(self.columns)}
        nested = self._build_copiers(call_context)
        takes = {f"__t{at}": take for at, take in nested.items()}
        body = "".join(f"    {names[at]} = __t{at}({names[at]})\n" for at in nested)
        body += "".join(f"    __a{at}({name})\n" for at, name in enumerate(names))
        scope: dict[str, Any] = {
            **appends,
            **takes,
            "__at": self.origins.append,
            "__work": call_context,
        }
        exec(f"def emit({', '.join(names)}):\n{body}    __at(__work.at)\n", scope)
        emit = scope["emit"]
        emit.__name__ = emit.__qualname__ = self.display_name
        return emit  # type: ignore[no-any-return]

    def _build_copiers(self, call_context: CallContext) -> dict[int, Callable[[Any], Any]]:
        """Return the functions that copy the values of nested columns, by column number.

        They copy because the next row may change an emitted list.
        """
        return {
            at: self._build_copier(field, call_context)
            for at, field in enumerate(self.schema)
            if is_nested([field.type])
        }

    def _build_copier(self, field: Field, call_context: CallContext) -> Callable[[Any], Any]:
        has_aliens = build_unknown_field_check(field.type)
        if has_aliens is None:
            return copy_value

        def take(value: Any) -> Any:
            found = copy_value(value)
            if has_aliens(found):
                wanted = f'{self.display_name}: column "{field.name}" is declared {field.type}'
                message = f"{wanted}, and got {value!r:.200}"
                raise OutputValueError(message, call_context.at, self.name)
            return found

        return take

    def _build_generic_emit(self, call_context: CallContext) -> Callable[..., None]:
        """Return `out` for columns whose names are not Python identifiers."""
        names, takes = self.schema.names, self._build_copiers(call_context)

        def emit(*values: object, **columns: object) -> None:
            row = dict(zip(names, values, strict=False)) | columns
            if row.keys() != set(names) or len(values) + len(columns) != len(names):
                raise TypeError(f"{self.display_name}() wants the columns {', '.join(names)}")
            for at, take in takes.items():
                row[names[at]] = take(row[names[at]])
            for name, gathered in zip(names, self.columns, strict=True):
                gathered.append(row[name])
            self.origins.append(call_context.at)

        return emit


class Collectors:
    """The collectors of all outputs of a class."""

    def __init__(self, outputs: Mapping[str, Schema], call_context: CallContext) -> None:
        """`outputs` are by name; the step's own output is named MAIN_OUTPUT."""
        self.collectors = {
            name: Collector(name, schema, call_context) for name, schema in outputs.items()
        }
        self.out: Any = self.collectors[MAIN_OUTPUT].emit
        for name, each in self.collectors.items():
            if name != MAIN_OUTPUT:
                setattr(self.out, name, each.emit)

    def __iter__(self) -> Iterator[Collector]:
        return iter(self.collectors.values())

    def get_marks(self) -> list[int]:
        """Return the number of rows of each output."""
        return [len(each) for each in self]

    def truncate(self, marked: list[int]) -> None:
        """Drop the rows emitted since then."""
        for each, rows in zip(self, marked, strict=True):
            each.truncate(rows)

    def validate(self, marked: list[int]) -> None:
        """Validate the rows emitted since then. Raises OutputValueError."""
        for each, rows in zip(self, marked, strict=True):
            each.validate(rows)

    def find_unknown_output(self, error: BaseException) -> str:
        """Return the name of an output that user code called and that does not exist, or ""."""
        if isinstance(error, AttributeError) and error.obj is self.out:
            return str(error.name)
        return ""

    def find_hint(self, error: Exception) -> str:
        """Return a hint for an exception about an unknown output or column."""
        if isinstance(error, AttributeError) and self.find_unknown_output(error):
            names = [name for name in self.collectors if name != MAIN_OUTPUT]
            listed = f"it declares {', '.join(names)}" if names else "declare it in outputs: {...}"
            return suggest_name(str(error.name), names) or listed
        if isinstance(error, TypeError) and get_text(error).startswith("out"):
            name = get_text(error).partition("(")[0].removeprefix("out").removeprefix(".")
            if name in self.collectors:
                columns = ", ".join(map(quote_name, self.collectors[name].schema.names))
                return f"its columns are {columns}"
        return ""


def _is_identity(numbers: pl.Series, rows: int) -> bool:
    """Whether these are the numbers of all rows, in order."""
    import polars as pl

    if len(numbers) != rows:
        return False
    return bool((numbers == pl.int_range(rows, dtype=pl.UInt32, eager=True)).all())


def add_hidden_columns(
    frame: pl.DataFrame, origin: pl.Series, input_rows: pl.DataFrame
) -> pl.DataFrame:
    """Add the hidden columns of their origin to rows: its time, and its position with a part."""
    import polars as pl

    hidden = [name for name in (EVENT_TIME, ORDER) if name in input_rows.columns]
    if not hidden:
        return frame
    of = pick_columns(input_rows, hidden)
    if not _is_identity(origin, input_rows.height):
        of = of[origin]
    whole = frame.hstack(of.get_columns())
    if ORDER not in hidden:
        return whole
    number = pl.int_range(frame.height, dtype=pl.Int64, eager=True)
    first = pl.DataFrame({"of": origin, "at": number}).select(pl.col("at").min().over("of"))
    return number_parts(whole, number - first["at"])
