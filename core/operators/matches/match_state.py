"""The runs of keys in memory, and as rows of a table.

Runs are Python values while rows move them; a checkpoint writes those that have changed. Matched
rows are shared by all threads that have them, and histories by the threads that grew from one. So
a row of the table has lists: the matched rows of the key, the histories as pairs of an earlier one
and a row, and the runs with their threads. A row that no thread has is no longer there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import KEY, KEY_INDEX, KeyedTable
from headrace.core.api.state_sizes import StateSize
from headrace.core.patterns.matcher import Matcher
from headrace.core.patterns.runs import AT, TIME, History, Row, Run, Thread
from headrace.core.plan.nodes import Match
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl
    from polars._typing import PolarsDataType

MATCHED_ROWS, HISTORIES, RUNS = "__rows", "__histories", "__runs"
"""The columns of the table: lists of rows, of histories, and of runs."""
MAX_KEYS = 1 << 17
"""The number of keys whose runs may stay in memory between two watermarks."""
RUN_BYTES = 400
"""The approximate size of a run, for the reported state sizes."""


def list_matched_columns(match: Match) -> dict[str, pl.DataType]:
    """Return the columns of matched rows: those of the key, the time, and those that are read."""
    key = {f"__k{at}": to_polars(each.value.type) for at, each in enumerate(match.key)}
    row = {field.name: to_polars(field.type) for field in match.matched_row}
    return {EVENT_TIME: to_polars(TIMESTAMP), **key, **row}


def list_waiting_columns(match: Match) -> dict[str, pl.DataType]:
    """Return the columns of rows that wait for the watermark, besides those of the key."""
    row = {f.name: to_polars(f.type) for f in match.row if match.stores_column(f.name)}
    return {**row, EVENT_TIME: to_polars(TIMESTAMP), ORDER: to_polars(ORDER_TYPE)}


def list_match_columns(match: Match) -> dict[str, pl.DataType]:
    """Return the columns that are stored of a key."""
    import polars as pl

    number = pl.Int32()
    history = pl.Struct({"before": number, "position": number, "row": number})
    thread = pl.Struct({"history": number, "options": pl.List(number)})
    run = pl.Struct({"start": number, "threads": pl.List(thread)})
    return {
        MATCHED_ROWS: pl.List(pl.Struct(list_matched_columns(match))),
        HISTORIES: pl.List(history),
        RUNS: pl.List(run),
    }


class RunCache:
    """The runs of all keys: those in memory, and the table."""

    def __init__(self, match: Match, table: KeyedTable, matcher: Matcher) -> None:
        self._columns = list_match_columns(match)
        self._row_types = list_matched_columns(match)
        self._matcher = matcher
        self._table = table
        self.is_complete = not self._table.rows
        """Whether all keys of the table are in memory, as far as they still have runs."""
        self.keys: dict[str, list[Run]] = {}
        """The runs in memory, by key, ordered by their start rows; no list is empty."""
        self.changed: set[str] = set()
        """The keys that may differ from the table."""

    def load(self, keys: pl.Series) -> None:
        """Load the runs of these keys into memory."""
        if self.is_complete or not self._table.rows:
            return
        found = self._table.find(keys.unique())
        names = found[KEY].to_list() if KEY in found.columns else None
        if names is None:
            names = keys.unique().gather(found[KEY_INDEX]).to_list()
        columns = (self._list_values(found, name) for name in self._columns)
        for key, rows, histories, runs in zip(names, *columns, strict=True):
            if key not in self.keys and key not in self.changed:
                self.keys[key] = self._decode(rows, histories, runs)

    def write_back(self) -> None:
        """Write the keys that have changed to the table."""
        import polars as pl

        if not self.changed:
            return
        ended = [key for key in self.changed if key not in self.keys]
        if ended and self._table.rows:
            self._table.remove(pl.Series(KEY, ended, dtype=pl.String))
        there = [key for key in self.changed if key in self.keys]
        if there:
            encoded = [self._encode(self.keys[key]) for key in there]
            columns = zip(*encoded, strict=True)
            values = dict(zip(self._columns, map(list, columns), strict=True))
            types = {name: to_physical_type(type) for name, type in self._columns.items()}
            frame = pl.DataFrame({KEY: there, **values}, schema={KEY: pl.String(), **types})
            self._table.put(frame.cast(dict(self._columns)))  # type: ignore[arg-type]
        self.changed.clear()

    def clear(self) -> None:
        """Keep no keys in memory; all of them are in the table."""
        self.keys.clear()
        self.is_complete = False

    def measure_size(self) -> StateSize:
        """Return the size of the runs in memory."""
        return StateSize(0, len(self.keys) * RUN_BYTES)

    def _list_values(self, found: pl.DataFrame, name: str) -> list[list[dict[str, Any]]]:
        column = found[name]
        return column.cast(to_physical_type(column.dtype)).to_list()

    def _encode(self, runs: list[Run]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the rows, the histories and the runs of a key as lists of structs."""
        encoder = _RunEncoder()
        found: list[dict[str, Any]] = [
            {
                "start": encoder.add_row(run.start),
                "threads": [self._encode_thread(encoder, thread) for thread in run.threads],
            }
            for run in runs
        ]
        numbers = encoder.sort_rows()
        for run in found:
            run["start"] = numbers[run["start"]]
        names = tuple(self._row_types)
        rows = [dict(zip(names, row[TIME:], strict=True)) for row in encoder.rows]
        return rows, encoder.histories, found

    def _encode_thread(self, encoder: _RunEncoder, thread: Thread) -> dict[str, Any]:
        history, options = thread
        indexes = None
        if options is not None:
            indexes = self._matcher.list_option_indexes(history, options)
        return {"history": encoder.add_history(history), "options": indexes}

    def _decode(
        self,
        rows: Iterable[Mapping[str, Any]],
        histories: Iterable[Mapping[str, int | None]],
        runs: Iterable[Mapping[str, Any]],
    ) -> list[Run]:
        """Return the runs of a key; the places of its rows are before those of new rows."""
        values = list(rows)
        made: list[Row] = [
            (at - len(values), *(row[name] for name in self._row_types))
            for at, row in enumerate(values)
        ]
        grown = list[History]()
        for each in histories:
            before, position, row = each["before"], each["position"], each["row"]
            assert position is not None and row is not None, "only the first has none before"
            grown.append((None if before is None else grown[before], position, made[row]))
        found = list[Run]()
        for run in runs:
            threads = [self._decode_thread(grown, each) for each in run["threads"]]
            found.append(Run(made[run["start"]], *threads[0], tuple(threads[1:])))
        return found

    def _decode_thread(self, histories: list[History], thread: Mapping[str, Any]) -> Thread:
        history, indexes = histories[thread["history"]], thread["options"]
        if indexes is None:
            return history, None
        return history, self._matcher.find_options(history, indexes)


class _RunEncoder:
    """The numbers of rows and histories of a key; what is shared has one number."""

    def __init__(self) -> None:
        self.rows = list[Row]()
        self.histories = list[dict[str, int | None]]()
        self._row_numbers = dict[int, int]()
        self._history_numbers = dict[int, int]()

    def add_row(self, row: Row) -> int:
        """Return the number of a row."""
        number = self._row_numbers.get(row[AT])
        if number is None:
            number = self._row_numbers[row[AT]] = len(self.rows)
            self.rows.append(row)
        return number

    def add_history(self, history: History) -> int:
        """Return the number of a history; those before it have lower numbers."""
        pending, each = list[History](), history
        while each is not None and id(each) not in self._history_numbers:
            pending.append(each)
            each = each[0]  # type: ignore[assignment]
        for one in reversed(pending):
            before, position, row = one
            number = None if before is None else self._history_numbers[id(before)]
            self._history_numbers[id(one)] = len(self.histories)
            self.histories.append(
                {"before": number, "position": position, "row": self.add_row(row)}
            )
        return self._history_numbers[id(history)]

    def sort_rows(self) -> list[int]:
        """Sort the rows by their places, and return the new number of each row."""
        order = sorted(range(len(self.rows)), key=lambda at: self.rows[at][AT])
        numbers = [0] * len(order)
        for new, old in enumerate(order):
            numbers[old] = new
        self.rows = [self.rows[old] for old in order]
        for each in self.histories:
            row = each["row"]
            assert row is not None, "each history has a row"
            each["row"] = numbers[row]
        return numbers


def to_physical_type(type: PolarsDataType) -> pl.DataType:
    """Return the type with whole numbers in the place of times, which Python converts slowly."""
    import polars as pl

    match type:
        case pl.Datetime() | pl.Duration() | pl.Time():
            return pl.Int64()
        case pl.Date():
            return pl.Int32()
        case pl.List(inner=inner):
            return pl.List(to_physical_type(inner))
        case pl.Struct(fields=fields):
            return pl.Struct({field.name: to_physical_type(field.dtype) for field in fields})
    assert isinstance(type, pl.DataType), "a column has a type"
    return type
