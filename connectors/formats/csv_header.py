"""The header of a CSV file, matched with the schema.

The columns may be in any order, and undeclared columns are allowed. A declared column that is
missing or named twice is an error of the file, not of a record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.connectors.formats.csv_shape import CsvSyntax
from headrace.connectors.formats.lines import BYTE_ORDER_MARK
from headrace.core.contracts import ConnectorError
from headrace.core.problems import suggest_name
from headrace.core.types import Schema


def parse_header(header: bytes, shape: CsvSyntax, declared: Schema) -> tuple[str, ...]:
    """Return the names of a file's columns, in its order. Raises ConnectorError."""
    line = header.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\n").removesuffix(b"\r")
    fields = shape.split_fields(line)
    if fields is None:
        raise _build_header_error("a quote of the CSV header is out of place")
    try:
        names = tuple(text.decode() for _, text in fields)
    except UnicodeDecodeError:
        raise _build_header_error("the CSV header is not UTF-8") from None
    twice = [name for name, times in Counter(names).items() if times > 1 and name in declared]
    if twice:
        raise _build_header_error(f'the CSV header names "{twice[0]}" twice')
    missing = [name for name in declared.names if name not in names]
    if missing:
        hint = (
            _build_delimiter_hint(names)
            or suggest_name(missing[0], names)
            or f"it has {', '.join(names)}"
        )
        raise _build_header_error(f'the CSV header has no column "{missing[0]}"', hint)
    return names


def _build_delimiter_hint(names: Sequence[str]) -> str:
    """Return the hint for a header that was not split, because the file has another delimiter."""
    signs = [sign for sign in ";\t|," if sign in names[0]]
    shown = signs[0].replace("\t", "\\t") if len(names) == 1 and signs else ""
    return f'did you mean csv: {{delimiter: "{shown}"}}?' if shown else ""


def _build_header_error(message: str, hint: str = "") -> ConnectorError:
    return ConnectorError(message, hint or "csv: {header: false} reads files without one")
