"""The pages of a Parquet file: how many rows to read at once, so that they fit into memory.

A page is a run of values of a column, compressed on its own. A small file may have pages that are
huge when decompressed, so the sizes are taken from the headers of the pages, by which readers
allocate memory; the sizes in the footer need not be true.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import field
from itertools import accumulate
from typing import BinaryIO

from headrace.connectors.formats import thrift
from headrace.connectors.formats.parquet_footer import (
    iterate_structs,
    list_flat_columns,
    read_footer,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.errors.rendering import format_size
from headrace.core.types.lazy_dataclass import dataclass

HEADER_BYTES = 1 << 10
MAX_HEADER_BYTES = 16 << 20
"""Headers may have statistics with whole values."""

DATA_PAGES = (5, 8)
"""The fields of a page header that describe a data page, of version 1 or 2."""
SIZE_HINT = "raise max_record in settings, or write the file with smaller pages"


@dataclass(frozen=True, slots=True)
class ColumnPages:
    """The data pages of a column in a row group: where each ends, and the bytes of each."""

    value_ends: list[int]
    sizes: list[int]
    is_flat: bool
    """Whether each row has one value."""

    def measure_rows(self, first: int, count: int, rows: int) -> int:
        """Return the bytes of the pages with the rows from `first` on, in a group of `rows`."""
        if not self.is_flat:
            values = self.value_ends[-1] if self.value_ends else 0
            first, count = first * values // max(rows, 1), -(-count * values // max(rows, 1))
        low = bisect_right(self.value_ends, first)
        high = bisect_right(self.value_ends, first + count - 1)
        total = 0
        for page in range(low, min(high + 1, len(self.sizes))):
            start = self.value_ends[page - 1] if page else 0
            end = self.value_ends[page]
            read = min(end, first + count) - max(start, first)
            total += self.sizes[page] * read // max(end - start, 1)
        return total


@dataclass(slots=True)
class ParquetPages:
    """The pages of the wanted columns of a file, found by their headers.

    The pages of one row group are known at a time.
    """

    path: str
    columns: Collection[str]
    max_page: int
    _groups: list[thrift.ThriftStruct] = field(init=False)
    _ends: list[int] = field(init=False)
    _flat_columns: set[str] = field(init=False)
    _group: int = -1
    _pages: list[ColumnPages] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            footer = read_footer(self.path, self.columns)
            self._groups = list(iterate_structs(footer, 4))
            self._flat_columns = list_flat_columns(footer)
            self._ends = list(accumulate(group[3].number for group in self._groups))
        except OSError as error:
            message = f"the file cannot be read: {error.strerror or error}"
            raise ConnectorError(message) from error
        except thrift.DAMAGE as error:
            raise _build_damage_error(error) from error

    def count_rows(self, first: int, wanted: int, budget: int) -> int:
        """Return how many rows to read from `first` on: at most `wanted`, and at least one.

        They take at most `budget` bytes if there are several. Raises
        ConnectorError if a page takes more than `max_page` bytes.
        """
        rows = 0
        for group in range(bisect_right(self._ends, first), len(self._ends)):
            if group != self._group:
                self._group, self._pages = group, self._read_group(group)
            whole = min(wanted - rows, self._ends[group] - first - rows)
            taken, size = self._fit(first + rows, whole, budget, least=0 if rows else 1)
            rows, budget = rows + taken, budget - size
            if taken < whole or rows == wanted:
                return rows
        return wanted

    def _fit(self, first: int, count: int, budget: int, least: int) -> tuple[int, int]:
        """Return how many rows of the current group fit into the budget, and their bytes."""
        begin = self._ends[self._group - 1] if self._group else 0
        rows = self._ends[self._group] - begin
        while True:
            size = sum(each.measure_rows(first - begin, count, rows) for each in self._pages)
            if size <= budget or count <= least:
                return count, size
            count //= 2

    def _read_group(self, group: int) -> list[ColumnPages]:
        try:
            with open(self.path, "rb") as file:
                return [
                    self._read_column(file, column[3].struct, self._groups[group][3].number)
                    for column in iterate_structs(self._groups[group], 1)
                ]
        except OSError as error:
            message = f"the file cannot be read: {error.strerror or error}"
            raise ConnectorError(message) from error
        except thrift.DAMAGE as error:
            raise _build_damage_error(error) from error

    def _read_column(self, file: BinaryIO, chunk: thrift.ThriftStruct, rows: int) -> ColumnPages:
        path = [bytes(part).decode() for part in chunk[3].items]  # type: ignore[arg-type]
        counts: list[int] = []
        sizes: list[int] = []
        for values, size in _iterate_pages(file, chunk):
            if size > self.max_page:
                raise ConnectorError(
                    f'a page of column "{path[0]}" takes {format_size(size)} of memory, more than'
                    f" max_record, {format_size(self.max_page)}",
                    SIZE_HINT,
                    final=True,
                )
            if values is not None:
                counts.append(values)
                sizes.append(size)
        name, is_flat = ".".join(path), len(path) == 1 and path[0] in self._flat_columns
        self._check_values(name, chunk[5].number, sum(counts), rows if is_flat else None)
        return ColumnPages(list(accumulate(counts)), sizes, is_flat)

    def _check_values(self, name: str, promised: int, found: int, rows: int | None) -> None:
        """Check the number of values, for which readers allocate memory."""
        if found != promised or (rows is not None and found != rows):
            raise ValueError(
                f'column "{name}" has {found} values, not the {promised} of the footer'
            )
        if found > self.max_page:
            raise ValueError(f'column "{name}" has {found} values in a row group')


def _iterate_pages(file: BinaryIO, chunk: thrift.ThriftStruct) -> Iterator[tuple[int | None, int]]:
    """Yield the number of values of each page, None for a dictionary, and its uncompressed size."""
    starts = [chunk[number].number for number in (9, 11) if number in chunk]
    at = min(start for start in starts if start > 0)
    end, left = at + chunk[7].number, chunk[5].number
    while left > 0 and at < end:
        header, size = _read_header(file, at, end)
        data = next((header[number].struct for number in DATA_PAGES if number in header), None)
        values = None if data is None else data[1].number
        uncompressed, compressed = header[2].number, header[3].number
        if min(uncompressed, compressed, values or 0) < 0:
            raise ValueError("a page has a negative size")
        yield values, uncompressed
        left -= values or 0
        at += size + compressed


def _read_header(file: BinaryIO, at: int, end: int) -> tuple[thrift.ThriftStruct, int]:
    """Read the header of the page at an offset, and return its size, too."""
    size = HEADER_BYTES
    while True:
        file.seek(at)
        data = file.read(min(size, end - at))
        try:
            return thrift.read_sized_struct(data)
        except IndexError:
            if size >= min(end - at, MAX_HEADER_BYTES):
                raise
        size *= 16


def _build_damage_error(error: Exception) -> ConnectorError:
    return ConnectorError(
        f"the file cannot be read as Parquet: {error}",
        "it may be damaged, still being written, or of another format",
    )
