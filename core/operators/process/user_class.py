"""A loaded user class: its declared states, its methods, and its row objects.

An error of a user class names the row or timer that was being handled.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from inspect import isgenerator
from itertools import chain, repeat, starmap
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.api.user_code import (
    UserCode,
    UserCodeError,
    format_error,
    format_row,
    get_text,
    locate_error,
    locate_file,
)
from headrace.core.errors.problems import suggest_name
from headrace.core.operators.operator import FailedRow
from headrace.core.operators.process.call_context import EVERY_KEY
from headrace.core.operators.process.cell_class import CELL_CLASS_NAME, describe_undeclared
from headrace.core.operators.process.collector import Collectors, OutputValueError
from headrace.core.operators.process.emit_lines import find_emit_lines
from headrace.core.process.declarations import Declared, Kind
from headrace.core.process.descriptors import State
from headrace.core.process.process import Process, Row
from headrace.core.types.data_types import TIMESTAMP, Schema, quote_name, to_polars
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


OBJECT_CHUNK_ROWS = 1 << 10
"""The number of rows whose values are Python objects at a time."""


BASE_HINT = "write class {}(Process), with Process from headrace"


SOURCE_HINT = "declare states in the body of the class that the pipeline names, with plain literals"


def get_states(kind: type) -> dict[str, Declared]:
    """Return the states and timers that a class declares, including inherited ones."""
    found: dict[str, Declared] = {}
    for each in reversed(kind.__mro__):
        for name, attribute in vars(each).items():
            if isinstance(attribute, State):
                found[name] = attribute.declaration
            elif name in found:
                del found[name]
    return found


def is_process_class(kind: object) -> bool:
    """Whether an object is a class that `process` can run."""
    return isinstance(kind, type) and issubclass(kind, Process)


def validate_class(
    kind: object, name: str, methods: Sequence[str], states: Mapping[str, Declared]
) -> None:
    """Check that a class matches its parsed source and has one of the methods.

    Raises UserCodeError.
    """
    if not isinstance(kind, type) or not issubclass(kind, Process):
        short = name.rpartition(":")[2]
        raise UserCodeError(f"{name} is not a process class", BASE_HINT.format(short))
    declared = get_states(kind)
    if declared != dict(states):
        other = next(n for n in (*declared, *states) if declared.get(n) != states.get(n))
        raise UserCodeError(f'{name}: state "{other}" is not found in its source text', SOURCE_HINT)
    if not any(hasattr(kind, method) for method in methods):
        raise UserCodeError(f"{name} has no method {' or '.join(methods)}")
    if not hasattr(kind, "on_timer") and any(s.kind is Kind.TIMER for s in declared.values()):
        raise UserCodeError(f"{name} declares a timer, but has no method on_timer")


class UnlistableColumn(UserCodeError):
    """A column has values that Python cannot represent, such as times after the year 9999."""


@dataclass(frozen=True, slots=True)
class RowFactory:
    """A factory of row objects from columns."""

    kind: type[msgspec.Struct]
    columns: tuple[str, ...]

    @classmethod
    def from_method(cls, method: Callable[..., Any], schema: Schema, name: str) -> RowFactory:
        """Build the row factory of a method: for the row class it annotates, or for all columns."""
        row_class = _find_row_class(method)
        if row_class is None:
            fields = [(n, Any, None) for n in schema.names if n.isidentifier()]
            row_type = msgspec.defstruct("Row", fields, bases=(Row,), gc=False)
            return cls(row_type, tuple(field for field, _, _ in fields))
        for field in row_class.__struct_fields__:
            if field not in schema:
                hint = suggest_name(field, schema.names) or f"it has {', '.join(schema.names)}"
                message = f'{name}: row class {row_class.__name__} has "{field}", but rows do not'
                raise UserCodeError(message, hint)
        return cls(row_class, row_class.__struct_fields__)

    @classmethod
    def build_empty(cls) -> RowFactory:
        """Return the factory for a class that gets no row objects."""
        return cls(Row, ())

    def create_rows(self, frame: pl.DataFrame) -> Iterator[Any]:
        """Create a row object for each row, lazily: so it is still in the CPU's cache when used."""
        if not self.columns:
            return starmap(self.kind, repeat((), frame.height))
        parts = (
            frame.slice(start, OBJECT_CHUNK_ROWS)
            for start in range(0, frame.height, OBJECT_CHUNK_ROWS)
        )
        return chain.from_iterable(map(self._create_chunk, parts))

    def _create_chunk(self, few: pl.DataFrame) -> Iterator[Any]:
        return map(self.kind, *(_list_column(few[name]) for name in self.columns))


def _find_row_class(method: Callable[..., Any]) -> type[msgspec.Struct] | None:
    """Return the row class that a method annotates, if any."""
    try:
        annotations = inspect.get_annotations(method, eval_str=True)
        first = next(iter(inspect.signature(method).parameters))
    except (NameError, ValueError, TypeError, AttributeError, SyntaxError, StopIteration):
        return None  # an annotation that only editors resolve
    found = annotations.get(first)
    is_row = isinstance(found, type) and issubclass(found, msgspec.Struct)
    return found if is_row and found is not Row else None


def list_values(column: pl.Series, shown: str, otherwise: str) -> list[Any]:
    """Return the values of a column, named `shown` in messages. Raises UnlistableColumn."""
    try:
        return convert_values(column)
    except (ValueError, OverflowError) as error:
        hint = f"drop it before the step, or {otherwise}"
        raise UnlistableColumn(f"{shown}: {error}", hint) from error


def _list_column(column: pl.Series) -> list[Any]:
    return list_values(column, f"column {quote_name(column.name)}", "leave it out of the row class")


def convert_values(column: pl.Series) -> list[Any]:
    """Return the values of a column as Python objects.

    Timestamps in UTC are converted faster than Polars does.
    """
    import polars as pl

    if column.dtype != to_polars(TIMESTAMP):
        return column.to_list()
    plain = column.cast(pl.Datetime("us")).to_list()
    return [None if each is None else each.replace(tzinfo=UTC) for each in plain]


MAX_LISTED_LINES = 5
RETURN_HINT = "emit rows with out(...); a method returns nothing"


RULE_HINT = "apply a rule to a key when its next row comes or its timer fires"


READ_ONLY_ERROR = re.compile(
    "'(mappingproxy|tuple)' object (has no attribute|does not support)"
    r"|'\|=' is not supported by mappingproxy|can only concatenate tuple"
)
"""Python's messages when user code changes a map or a list that all keys share."""


UNDECLARED_ERROR = re.compile(f"'{CELL_CLASS_NAME}' object has no attribute '(\\w+)'$")
"""Python's message when user code reads or sets an undeclared state."""


class UserClassErrors:
    """The error messages of one class."""

    def __init__(self, code: UserCode, outs: Collectors, states: Mapping[str, Declared]) -> None:
        """`states` are the states that the class declares."""
        self._code = code
        self._states = tuple(states)
        self._has_shared = any(declared.shared for declared in states.values())
        self._collectors = outs

    @property
    def display_name(self) -> str:
        """The name of the class in messages."""
        return self._code.display_name

    def build_row_error(
        self, error: BaseException, key: object, row: dict[str, Any]
    ) -> UserCodeError:
        """Return the error of a row."""
        text = format_row(row)
        of = f"in the rule {text}" if key is EVERY_KEY else f"in the row {text} of the key {key!r}"
        return self._build_error(error, of)

    def build_timer_error(
        self, error: BaseException, key: object, name: str, at: datetime | None
    ) -> UserCodeError:
        """Return the error of a timer."""
        return self._build_error(error, f'in timer "{name}" at {at} of the key {key!r}')

    def build_batch_error(self, error: BaseException, rows: int) -> UserCodeError:
        """Return the error of a batch of rows."""
        return self._build_error(error, f"in {rows} rows")

    def build_return_error(self, found: object, method: str) -> UserCodeError:
        """Return the error of a method that returned a value."""
        what = "yields" if isgenerator(found) else f"returned a {type(found).__name__}"
        hint = RULE_HINT if method == "on_rule" else RETURN_HINT
        return UserCodeError(f"{self.display_name}: {method} {what}", hint)

    def build_init_error(self, error: BaseException) -> UserCodeError:
        """Return the error of creating an object of the class."""
        return self._build_error(error, f"making a {self._code.name}")

    def build_failed_row(self, error: Exception, row: dict[str, Any]) -> FailedRow:
        """Return the failed row, or the key and time of a failed timer, as a FailedRow."""
        return FailedRow(self._format_message(error), row)

    def _build_error(self, error: BaseException, of: str) -> UserCodeError:
        hint = error.hint if isinstance(error, UserCodeError) else ""
        if isinstance(error, Exception) and not hint:
            hint = self._collectors.find_hint(error)
        if self._has_shared and READ_ONLY_ERROR.match(get_text(error)):
            hint = "state shared by all keys is written in on_rule"
        elif (found := UNDECLARED_ERROR.match(get_text(error))) and found[1] in self._states:
            hint = RULE_HINT
        return UserCodeError(f"{self._format_message(error)} ({of})", hint)

    def _locate_emit(self, error: OutputValueError) -> str:
        """Return the message with the line that emitted the value, or the lines that may have."""
        path = locate_file(self._code.path)
        lines = [str(line) for line in find_emit_lines(path, self._code.name, error.output)]
        name = self._code.path.name
        if len(lines) == 1:
            return f"{name}:{lines[0]}: {error.message}"
        listed = f", emitted at line {' or '.join(lines[:MAX_LISTED_LINES])}" if lines else ""
        return f"{name}: {error.message}{listed}"

    def _format_message(self, error: BaseException) -> str:
        place = locate_error(error, self._code.path)
        if isinstance(error, OutputValueError) and place == self._code.path.name:
            return self._locate_emit(error)
        if isinstance(error, UserCodeError | OutputValueError):
            return error.message if place == self._code.path.name else f"{place}: {error.message}"
        if output := self._collectors.find_unknown_output(error):
            return f'{place}: the class has no output "{output}"'
        if isinstance(error, AttributeError) and (found := UNDECLARED_ERROR.match(get_text(error))):
            if found[1] in self._states:  # on_rule sees only shared states
                return f'{place}: state "{found[1]}" belongs to a key, and a rule has none'
            return f"{place}: AttributeError: {describe_undeclared(found[1], self._states)}"
        return f"{place}: {format_error(error)}"
