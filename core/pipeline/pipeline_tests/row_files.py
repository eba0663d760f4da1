"""Rows of tests in files of their own: CSV, JSON Lines and Parquet.

Values are read as if they were written in the test, and have their places in the file; those of
Parquet have that of its path.

Tests: tests/cli/pipeline_tests/test_row_files.py.
"""

from __future__ import annotations

import base64
import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path

from headrace.core.errors.problems import Location, find_nearest_file
from headrace.core.errors.rendering import format_count
from headrace.core.pipeline.pipeline_tests.model import GivenRow
from headrace.core.pipeline.text import NOTHING, Text
from headrace.core.pipeline.yaml_document.nodes import YamlScalar
from headrace.core.pipeline.yaml_document.source_file import SourceText, format_path

MAX_BYTES = 16 * 2**20
JSON_CONSTANTS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


class WrongRowFile(Exception):
    """A file of rows cannot be read; without a location, that of its path is meant."""

    def __init__(self, message: str, hint: str = "", location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.location = location


def is_row_file(path: str) -> bool:
    """Whether a text is the path of a file of rows."""
    return path.endswith(tuple(READERS))


def read_row_file(path: Path, named: Text) -> tuple[GivenRow, ...]:
    """Return the rows of a file, whose path is written as `named`. Raises WrongRowFile."""
    try:
        if os.path.getsize(path) > MAX_BYTES:
            raise WrongRowFile(f"{format_path(path)} is larger than {MAX_BYTES >> 20} MB")
        return tuple(READERS[path.suffix](path, named))
    except FileNotFoundError:
        raise WrongRowFile(
            f"there is no file {format_path(path)}", _suggest_file(path, named)
        ) from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise WrongRowFile(f"{format_path(path)} cannot be read: {reason}") from None


def _suggest_file(path: Path, named: Text) -> str:
    names = os.listdir(path.parent) if path.parent.is_dir() else ()
    near = find_nearest_file(path.name, names)
    near = near and os.path.join(os.path.dirname(named.reveal()), near)
    return f'did you mean "{near}"?' if near else "the path starts at the folder of the test's file"


def _read_text(path: Path) -> SourceText:
    try:
        return SourceText(format_path(path), path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = f"{format_path(path)} is not UTF-8: byte at offset {error.start}"
        raise WrongRowFile(message, "save it as UTF-8") from None


def _read_csv(path: Path, named: Text) -> Iterator[GivenRow]:
    """Yield the rows of a CSV file with a header; an empty value is null."""
    file = _read_text(path)
    lines = file.text.splitlines(keepends=True)
    starts, end = [0], 0
    for line in lines:
        end += len(line)
        starts.append(end)
    reader = csv.reader(lines, strict=True)
    names: list[Text] | None = None
    at = 0
    try:
        for values in reader:
            scalar = YamlScalar(file, starts[at], starts[reader.line_num], "", "=")
            at = reader.line_num
            if names is None:
                names = [Text(value, scalar) for value in values]
            elif values:
                yield _build_csv_row(names, values, scalar)
    except csv.Error as error:
        place = file.locate(starts[at], starts[at] + 1)
        raise WrongRowFile(f"this is no CSV: {error}", location=place) from None
    if names is None:
        raise WrongRowFile(f"{format_path(path)} has no header", "its first line names the columns")


def _build_csv_row(names: list[Text], values: list[str], scalar: YamlScalar) -> GivenRow:
    place = scalar.file.locate(scalar.start, scalar.end)
    if len(values) != len(names):
        message = f"wanted {format_count(len(names), 'value')}, as in the header, got {len(values)}"
        raise WrongRowFile(message, location=place)
    row = (Text(value, scalar) if value else NOTHING for value in values)
    return GivenRow(place, dict(zip(names, row, strict=True)))


def _read_json_lines(path: Path, named: Text) -> Iterator[GivenRow]:
    """Yield the rows of a file with a JSON object in each line."""
    file = _read_text(path)
    start = 0
    for line in file.text.split("\n"):
        scalar = YamlScalar(file, start, start + len(line), "", "=")
        start += len(line) + 1
        if not line.strip():
            continue
        place = file.locate(scalar.start, scalar.end)
        try:
            value = json.loads(
                line, parse_float=str, parse_int=str, parse_constant=JSON_CONSTANTS.__getitem__
            )
        except (ValueError, RecursionError) as error:
            at = scalar.start + getattr(error, "pos", 0)
            reason = getattr(error, "msg", "too deeply nested").lower()
            message = f"this is no JSON: {reason}"
            raise WrongRowFile(message, location=file.locate(at, at + 1)) from None
        if not isinstance(value, dict):
            raise WrongRowFile("wanted a JSON object in each line", location=place)
        yield _build_row(value, scalar, place)


def _read_parquet(path: Path, named: Text) -> Iterator[GivenRow]:
    """Yield the rows of a Parquet file."""
    import polars as pl

    try:
        rows = pl.read_parquet(path.read_bytes()).to_dicts()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).splitlines()[0]
        raise WrongRowFile(f"{format_path(path)} is no Parquet file: {reason}") from None
    assert named.scalar is not None
    for row in rows:
        yield _build_row(row, named.scalar, named.locate())


READERS: Mapping[str, Callable[[Path, Text], Iterator[GivenRow]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}


def _build_row(row: Mapping[str, object], scalar: YamlScalar, place: Location) -> GivenRow:
    return GivenRow(place, {Text(n, scalar): _write_value(v, scalar) for n, v in row.items()})


def _write_value(value: object, scalar: YamlScalar) -> object:
    """Return a value as it is written in a test."""
    match value:
        case None:
            return NOTHING
        case dict():
            return {Text(str(k), scalar): _write_value(v, scalar) for k, v in value.items()}
        case list():
            return [_write_value(each, scalar) for each in value]
        case bool():
            return Text("true" if value else "false", scalar)
        case bytes():
            return Text(base64.b64encode(value).decode(), scalar)
        case datetime() | date() | time():
            return Text(value.isoformat(), scalar)
    return Text(str(value), scalar)
