"""Named, typed columns of a file, guessed by format and written as the `schema:` of a source."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Never

import msgspec

from headrace.connectors.guess.file_head import (
    MAX_ROWS,
    EmptyFile,
    FileHead,
    Format,
    UnreadableFile,
    read_head,
)
from headrace.connectors.guess.type_evidence import TypeEvidence, add_cell_evidence
from headrace.core.expressions.coercion import common_type
from headrace.core.pipeline.yaml_document.source_file import format_path
from headrace.core.types.data_types import NULL, STRING, Type
from headrace.core.types.lazy_dataclass import dataclass

MAX_FILES = 8
"""The most files that are read for a guess, from the first to the last."""


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


def guess_schema(*paths: str) -> SchemaGuess:
    """Guess the columns that JSON, CSV or Parquet files have together, from some of the files.

    Files without rows are left out, unless all are empty. Raises UnreadableFile.
    """
    last = len(paths) - 1
    chosen = {round(at * last / (MAX_FILES - 1)) for at in range(MAX_FILES)}
    heads, empty = list[FileHead](), list[EmptyFile]()
    for at in sorted(chosen):
        try:
            heads.append(read_head(paths[at]))
        except EmptyFile as error:
            empty.append(error)
    if not heads:
        raise empty[0]
    if other := next((head for head in heads if head.format != heads[0].format), None):
        names = " and ".join(f"{head.name} ({head.format})" for head in (heads[0], other))
        raise UnreadableFile(f"wanted files of one format, got {names}: a pattern chooses some")
    match heads[0].format:
        case "json":
            return _guess_json(heads)
        case "csv":
            return _guess_csv(heads)
    return _read_parquet_schemas(paths)


def _read_parquet_schemas(paths: Sequence[str]) -> SchemaGuess:
    """Return the columns that Parquet files have together, each of the common type."""
    from headrace.connectors.guess.parquet import read_parquet_columns

    columns, notes = dict[str, tuple[Type, str]](), dict[str, None]()
    for path in paths:
        file = format_path(path)
        fields, found = read_parquet_columns(path, file)
        notes |= dict.fromkeys(found)
        for name, type in fields:
            known, first = columns.get(name, (NULL, file))
            common = common_type(known, type)
            if common is None:
                got = f"{known} in {first} and {type} in {file}"
                raise UnreadableFile(f'column "{name}" is {got}: a pattern chooses some files')
            columns[name] = common, first
    guessed = (GuessedColumn(n, STRING if t == NULL else t) for n, (t, _) in columns.items())
    return SchemaGuess(format_path(paths[0]), "parquet", tuple(guessed), 0, True, tuple(notes))


def guess_text_column(name: str, texts: Iterable[str | None]) -> GuessedColumn:
    """Guess the type of a column from its values as texts, as those of CSV."""
    seen = TypeEvidence()
    add_cell_evidence(seen, enumerate((text or "" for text in texts), 1))
    return GuessedColumn(name, seen.type, seen.doubt)


def _guess_json(heads: Sequence[FileHead]) -> SchemaGuess:
    root, notes, row_count, is_complete = TypeEvidence(), list[str](), 0, True
    for head in heads:
        lines = head.text.split("\n")
        filled = [at for at, line in enumerate(lines, 1) if line and not line.isspace()]
        is_complete = is_complete and not head.is_cut and len(filled) <= MAX_ROWS
        read = filled[: MAX_ROWS // len(heads)]
        parsed = _parse_objects([lines[at - 1] for at in read])
        bad = [at for at, row in zip(read, parsed, strict=True) if row is None]
        rows = [row for row in parsed if row is not None]
        root.add_all(rows, [at for at, row in zip(read, parsed, strict=True) if row is not None])
        row_count += len(parsed)
        if not rows:
            _raise_not_json(head)
        if bad:
            notes.append(f"line {bad[0]} is not a JSON object{_format_more(bad)}: left out")
    columns = tuple(GuessedColumn(n, seen.type, seen.doubt) for n, seen in root.fields.items())
    if not columns:
        raise UnreadableFile(f"the objects in {heads[0].name} have no fields")
    return SchemaGuess(heads[0].name, "json", columns, row_count, is_complete, tuple(notes))


def _parse_objects(lines: Sequence[str]) -> Sequence[dict[str, object] | None]:
    """Parse lines, all at once if each is JSON; None for a line that is no object."""
    try:
        rows = _FAST_DECODER.decode_lines("\n".join(lines))
    except (msgspec.DecodeError, RecursionError):
        rows = []
    if len(rows) != len(lines):  # one value may be in several lines
        return [*map(_parse_object, lines)]
    return [row if isinstance(row, dict) else None for row in rows]


def _parse_object(line: str) -> dict[str, object] | None:
    try:
        row = _FAST_DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError):
        # It rejects numbers and texts that cannot be written again, such as 1e999.
        try:
            row = _DECODER.decode(line)
        except (ValueError, RecursionError):
            return None
    return row if isinstance(row, dict) else None


def _reject_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)
_FAST_DECODER = msgspec.json.Decoder()


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


def _guess_csv(heads: Sequence[FileHead]) -> SchemaGuess:
    delimiter = _detect_delimiter(heads[0].text.partition("\n")[0])
    notes = [f"csv: {{delimiter: {json.dumps(delimiter)}}} belongs next to it"][delimiter == "," :]
    columns, rows, is_complete = dict[str, TypeEvidence](), 0, True
    for head in heads:
        names, values = _read_csv_head(head, delimiter)
        is_complete = is_complete and not head.is_cut and len(values) <= MAX_ROWS
        values = values[: MAX_ROWS // len(heads)]
        rows += len(values)
        odd = [number for number, (_, row) in enumerate(values, 2) if len(row) != len(names)]
        fit = [(line, row) for line, row in values if len(row) == len(names)]
        if odd:
            first = f"row {odd[0]} has {len(values[odd[0] - 2][1])} fields, the header {len(names)}"
            notes.append(f"{first}{_format_more(odd)}: left out")
        for at, name in enumerate(names):
            cells = ((line, row[at]) for line, row in fit)
            add_cell_evidence(columns.setdefault(name, TypeEvidence()), cells)
    if not rows:
        raise EmptyFile(f"{heads[0].name} has a header and no rows")
    guessed = tuple(GuessedColumn(name, seen.type, seen.doubt) for name, seen in columns.items())
    return SchemaGuess(heads[0].name, "csv", guessed, rows, is_complete, tuple(notes), delimiter)


def _read_csv_head(head: FileHead, delimiter: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and one row more than MAX_ROWS, each with the number of its last line."""
    (_, names), *values = islice(_read_csv_rows(head, delimiter), MAX_ROWS + 2)
    _check_names(head.name, names)
    return names, values


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
