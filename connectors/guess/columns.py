"""Named, typed columns of a file, guessed by format and written as the `schema:` of a source."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Never

from headrace.connectors.guess.file_head import (
    MAX_ROWS,
    FileHead,
    Format,
    UnreadableFile,
    read_head,
)
from headrace.connectors.guess.parquet import read_parquet_columns
from headrace.connectors.guess.type_evidence import TypeEvidence, collect_cell_evidence
from headrace.core.types.data_types import Type


@dataclass(frozen=True, slots=True)
class GuessedColumn:
    """A guessed column; `doubt` says what its values leave undecided."""

    name: str
    type: Type
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class SchemaGuess:
    """The guessed columns, the number of rows read, and notes for the user."""

    name: str
    format: Format
    columns: tuple[GuessedColumn, ...]
    row_count: int
    is_complete: bool
    notes: tuple[str, ...] = ()
    delimiter: str = ","
    """The delimiter of CSV."""

    def describe_guess(self) -> list[str]:
        """Return notes for the user about the guess, a line each."""
        if self.format == "parquet":
            origin = f"taken from the schema in {self.name}, no rows were read"
        else:
            part = "all" if self.is_complete else "the first"
            origin = f"guessed from {part} {self.row_count:,} rows of {self.name}"
        if self.format != "json":
            origin += f"; add `format: {self.format}` next to the connector"
        nulls = "every column may be null, as no file proves otherwise: add `not null` where needed"
        return [origin, *self.notes, nulls]


def guess_schema(path: str) -> SchemaGuess:
    """Guess the columns of a JSON, CSV or Parquet file. Raises UnreadableFile for any other."""
    head = read_head(path)
    match head.format:
        case "json":
            return _guess_json(head)
        case "csv":
            return _guess_csv(head)
    fields, notes = read_parquet_columns(path, head.name)
    columns = tuple(GuessedColumn(name, type) for name, type in fields)
    return SchemaGuess(head.name, "parquet", columns, 0, True, notes)


def _guess_json(head: FileHead) -> SchemaGuess:
    root, bad, rows = TypeEvidence(), [], 0
    lines = [(i, line) for i, line in enumerate(head.text.split("\n"), 1) if line.strip()]
    for number, line in lines[:MAX_ROWS]:
        rows += 1
        row = _parse_object(line)
        if row is None:
            bad.append(number)
        else:
            root.add(row, number)
    if len(bad) == rows:
        _raise_not_json(head)
    columns = tuple(GuessedColumn(n, seen.type, seen.doubt) for n, seen in root.fields.items())
    if not columns:
        raise UnreadableFile(f"the objects in {head.name} have no fields")
    notes = (f"line {bad[0]} is not a JSON object{_format_more(bad)}: left out",) if bad else ()
    return SchemaGuess(
        head.name, "json", columns, rows, not head.is_cut and len(lines) <= MAX_ROWS, notes
    )


def _parse_object(line: str) -> dict[str, object] | None:
    try:
        row = json.loads(line, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _reject_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _raise_not_json(head: FileHead) -> Never:
    wanted = "wanted one JSON object a line"
    first = head.text.lstrip()[0]
    plain = head.name.removesuffix(".gz").removesuffix(".zst").rpartition(".")[0] or head.name
    if first == "[":
        hint = f"jq -c '.[]' {head.name} > {plain}.jsonl"
        raise UnreadableFile(f"{head.name} holds a JSON array, {wanted}: {hint}")
    if first == "{" and "\n" in head.text.strip():
        hint = f"jq -c . {head.name} > {plain}.jsonl"
        raise UnreadableFile(f"{head.name} spreads objects over several lines, {wanted}: {hint}")
    line = head.text.strip().partition("\n")[0]
    shown = line if len(line) <= 60 else f"{line[:60]}..."
    raise UnreadableFile(f"{head.name}, line 1: {wanted}, got {shown}")


def _guess_csv(head: FileHead) -> SchemaGuess:
    delimiter = _detect_delimiter(head.text.partition("\n")[0])
    rows = list(islice(_read_csv_rows(head, delimiter), MAX_ROWS + 2))
    (_, names), *values = rows[: MAX_ROWS + 1]
    _check_names(head.name, names)
    if not values:
        raise UnreadableFile(f"{head.name} has a header and no rows")
    odd = [number for number, (_, row) in enumerate(values, 2) if len(row) != len(names)]
    fit = [(line, row) for line, row in values if len(row) == len(names)]
    notes = [f"csv: {{delimiter: {json.dumps(delimiter)}}} belongs next to it"]
    if odd:
        first = f"row {odd[0]} has {len(values[odd[0] - 2][1])} fields, the header {len(names)}"
        notes.append(f"{first}{_format_more(odd)}: left out")
    seen = [
        collect_cell_evidence((line, row[index]) for line, row in fit)
        for index in range(len(names))
    ]
    columns = tuple(GuessedColumn(n, s.type, s.doubt) for n, s in zip(names, seen, strict=True))
    whole = not head.is_cut and len(rows) <= MAX_ROWS + 1
    return SchemaGuess(
        head.name,
        "csv",
        columns,
        len(values),
        whole,
        tuple(notes[delimiter == "," :]),
        delimiter,
    )


def _read_csv_rows(head: FileHead, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the number of its last line."""
    reader = csv.reader(io.StringIO(head.text, newline=""), delimiter=delimiter)
    try:
        yield from ((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        raise UnreadableFile(f"{head.name} is not CSV: {error}") from None


def _detect_delimiter(header: str) -> str:
    """Return the comma, unless the header has none and has another common delimiter."""
    return next((d for d in ",;\t|" if d in header), ",")


def _check_names(file: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if not name.strip():
            raise UnreadableFile(f"{file}: column {index + 1} has no name in the header")
        if name in names[:index]:
            raise UnreadableFile(f'{file}: two columns are named "{name}"')


def _format_more(lines: list[int]) -> str:
    return f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""


def format_yaml_block(guess: SchemaGuess) -> str:
    """Return a `schema:` mapping, each doubt as a comment after its column."""
    lines = ["schema:"]
    for column in guess.columns:
        line = f"  {_format_scalar(column.name)}: {_format_scalar(str(column.type))}"
        lines.append(f"{line}  # {column.doubt}" if column.doubt else line)
    return "\n".join(lines) + "\n"


def _format_scalar(text: str) -> str:
    """Return the text as a YAML scalar, quoted where YAML would read something else."""
    import json

    import yaml

    try:
        plain = yaml.safe_load(f"{text}: {text}") == {text: text}
    except yaml.YAMLError:
        plain = False
    return text if plain and text.isascii() else json.dumps(text, ensure_ascii=False)
