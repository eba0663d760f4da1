"""Partials of user-defined aggregates, as columns of a state and as arguments and results of a user
class.

With a schema a partial is a dict: arrays are Series, all else plain values. Without one it is JSON,
in a column of texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.api.user_code import UserCodeError, format_error, get_polars_errors
from headrace.core.types.data_types import STRING, Array, Schema, Type, to_polars
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

JSON_COLUMN = "json"
"""The column of a state whose class declares no columns."""
STATE_HINT = 'a class declares the fields of its partials, as in state = {"n": "bigint"}'


class InvalidGroupResult(UserCodeError):
    """User code failed, or returned an invalid value, for the group in row `at` of a frame."""

    def __init__(self, message: str, at: int, hint: str = "") -> None:
        super().__init__(message, hint)
        self.at = at


@dataclass(frozen=True, slots=True)
class PartialCodec:
    """The partials of one class; `schema` is None if the class declares none."""

    class_name: str
    """The name of the class in messages."""
    schema: Schema | None

    @property
    def column_types(self) -> dict[str, Type]:
        """The columns of the partials in a state."""
        if self.schema is None:
            return {JSON_COLUMN: STRING}
        return {field.name: field.type for field in self.schema}

    def check_partial(self, made: object, at: int, what: str) -> object:
        """Return the partial that user code returned, if it is valid."""
        if self.schema is None:
            try:
                return json.dumps(made)
            except (TypeError, ValueError, RecursionError) as error:
                message = (
                    f"{self.class_name}: {what} returned a value that is not JSON: "
                    f"{format_error(error)}"
                )
                raise InvalidGroupResult(message, at, STATE_HINT) from error
        if isinstance(made, dict) and made.keys() == self.column_types.keys():
            return made
        actual = (
            ", ".join(map(str, made)) or "an empty one"
            if isinstance(made, dict)
            else describe_value(made)
        )
        message = (
            f"{self.class_name}: {what} must return a dict of {', '.join(self.column_types)}, "
            f"got {actual}"
        )
        raise InvalidGroupResult(message, at)

    def build_columns(
        self, made: Sequence[Any], names: Sequence[str], what: str
    ) -> list[pl.Series]:
        """Convert checked partials to columns of these names."""
        import polars as pl

        if self.schema is None:
            return [pl.Series(names[0], made, dtype=pl.String())]
        columns = []
        for name, field in zip(names, self.schema, strict=True):
            values = [each[field.name] for each in made]
            subject = f'{self.class_name}: {what} returned a "{field.name}"'
            columns.append(build_series(name, values, field.type, subject))
            if not field.nullable and columns[-1].null_count():
                at = int(columns[-1].is_null().arg_true()[0])
                raise InvalidGroupResult(f"{subject} of None, but it is declared not null", at)
        return columns

    def read_partials(self, columns: Sequence[pl.Series]) -> list[Any]:
        """Return the partial in each row."""
        if self.schema is None:
            return [json.loads(text) for text in columns[0]]
        names, arrays = self.schema.names, [isinstance(f.type, Array) for f in self.schema]
        values = [
            [*column] if is_array else column.to_list()
            for column, is_array in zip(columns, arrays, strict=True)
        ]
        return [dict(zip(names, each, strict=True)) for each in zip(*values, strict=True)]

    def read_partial_lists(self, columns: Sequence[pl.Series]) -> Iterator[list[Any]]:
        """Yield the list of partials in each row."""
        lengths = columns[0].list.len().to_list()
        single = self.read_partials([explode_lists(column) for column in columns])
        start = 0
        for length in lengths:
            yield single[start : start + length]
            start += length


def explode_lists(lists: pl.Series) -> pl.Series:
    """Return the elements of lists, one after the other."""
    return lists.explode(empty_as_null=False, keep_nulls=False)


def split_lists(lists: pl.Series, name: str) -> Iterator[pl.Series]:
    """Yield each list as a Series of that name."""
    elements, start = explode_lists(lists).alias(name), 0
    for length in lists.list.len().to_list():
        yield elements.slice(start, length)
        start += length


def build_series(name: str, values: Sequence[object], type: Type, what: str) -> pl.Series:
    """Convert values of user code to a column; the error has the first value that is not of the
    type."""
    import polars as pl

    wanted = to_polars(type)
    unfit = get_polars_errors()
    try:
        return pl.Series(name, values, dtype=wanted, strict=True)
    except unfit as failed:
        error: BaseException = failed
    at = 0
    for number, value in enumerate(values):
        try:
            pl.Series([value], dtype=wanted, strict=True)
        except unfit as failed:
            at, error = number, failed
            break
    raise InvalidGroupResult(f"{what} that is not a {type}: {format_error(error)}", at) from error


def describe_value(value: object) -> str:
    """Describe a value in a word.

    >>> describe_value(None), describe_value(1.5)
    ('None', 'float')
    """
    return "None" if value is None else type(value).__name__
