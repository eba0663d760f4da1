"""The columns of a source whose values are in the names of folders, as in `day=2026-01-31/`.

They are not decoded from the files: each file has one value of them, which is added to its rows.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.connectors.files.names import parse_folder
from headrace.connectors.files.options import FilesSource
from headrace.connectors.formats.factories import list_decoded_columns
from headrace.core.api.failures import ConnectorError
from headrace.core.plan import nodes
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class FolderColumns:
    """The folder columns of a source."""

    fields: tuple[Field, ...]
    order: tuple[str, ...]
    """The columns of the source, in their order."""
    spare: tuple[str, ...] = ()
    """The column that is decoded only to count the rows of a file, if no other one is."""

    def add(self, frame: pl.DataFrame, path: str) -> pl.DataFrame:
        """Return the rows of a file with the values of its folders. Raises ConnectorError."""
        import polars as pl

        from headrace.connectors.formats.csv_decode import convert_texts

        values = read_folders(path)
        columns = []
        for field in self.fields:
            if field.name not in values:
                message = f'{path} is in no folder "{field.name}=..."'
                hint = "remove the column from partition_by, or choose the files by a pattern"
                raise ConnectorError(message, hint, split=path)
            text = values[field.name]
            column = convert_texts(pl.Series(field.name, [text], pl.String), field.type)
            if column[0] is None and (text is not None or not field.nullable):
                got = "null" if text is None else f'"{text}"'
                message = f'folder "{field.name}=..." of {path}: wanted {field.type}, got {got}'
                hint = "declare it as string" if text is not None else ""
                raise ConnectorError(message, hint, split=path)
            columns.append(pl.lit(column).first().alias(field.name))
        rows = frame.with_columns(columns).drop(self.spare)
        ordered = [name for name in self.order if name in rows.columns]
        return rows.select(*ordered, *(name for name in rows.columns if name not in ordered))


def read_folders(path: str) -> dict[str, str | None]:
    """Return the values in the names of a file's folders, by the names of their columns.

    >>> read_folders("in/city=a%2Fb/day=__HIVE_DEFAULT_PARTITION__/1.csv")
    {'city': 'a/b', 'day': None}
    """
    folders = os.path.dirname(path).split(os.sep)
    return dict(filter(None, map(parse_folder, folders)))


def build_folder_columns(source: nodes.Source) -> FolderColumns | None:
    """Return the folder columns that a source reads; None if it reads none."""
    names = _list_names(source)
    decoded = list_decoded_columns(source)
    fields = tuple(field for field in decoded if field.name in names)
    if not names:
        return None
    inside = remove_folder_columns(source).decoded_columns
    spare = tuple(name for name in inside if name not in source.decoded_columns)
    return FolderColumns(fields, source.decoded_columns, spare)


def remove_folder_columns(source: nodes.Source) -> nodes.Source:
    """Return the source without its folder columns, as its files have it."""
    names = _list_names(source)
    schema = Schema(tuple(field for field in source.schema if field.name not in names))
    decoded = tuple(name for name in source.decoded_columns if name not in names)
    # Without any column, the number of rows would be lost.
    return replace(source, schema=schema, decoded_columns=decoded or schema.names[:1])


def _list_names(source: nodes.Source) -> frozenset[str]:
    options = source.options
    assert isinstance(options, FilesSource)
    return frozenset(map(str, options.partition_by or ()))
