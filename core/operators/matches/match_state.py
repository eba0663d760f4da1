"""The runs of keys in memory, and as rows of a table.

Runs are Python values while rows move them; a checkpoint writes those that have changed. Matched
rows are shared by all threads that have them, and histories by the threads that grew from one. So
a row of the table has lists: the matched rows of the key, the histories as pairs of an earlier one
and a row, and the runs with their threads. A row that no thread has is no longer there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from headrace.core.api.state import KEY, KEY_INDEX
from headrace.core.api.state_sizes import StateSize
from headrace.core.patterns.key_matcher import KeyMatcher
from headrace.core.patterns.matcher import Matcher
from headrace.core.patterns.runs import AT, TIME, History, OptionSet, Row, Run, RunsOfKey, Thread
from headrace.core.plan.nodes import Match
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl
    from polars._typing import PolarsDataType

MATCHED_ROWS, HISTORIES, RUNS = "__rows", "__histories", "__runs"
"""The columns of the table: lists of rows, of histories, and of runs."""
PATTERN = "__pattern"
"""The column of a table that several patterns share, with the pattern of a run."""
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


class RunTable(Protocol):
    """The stored runs of keys: the part of a KeyedTable that is used."""

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of these keys."""
        ...

    def put(self, frame: pl.DataFrame) -> None:
        """Insert or replace the rows of these keys."""
        ...

    def remove(self, keys: pl.Series) -> None:
        """Remove the rows of these keys."""
        ...

    @property
    def rows(self) -> int:
        """The number of keys."""
        ...


class RunCache:
    """The runs of all keys: those in memory, and the table."""

    def __init__(self, match: Match, table: RunTable, matcher: KeyMatcher) -> None:
        self._columns = list_match_columns(match)
        self._row_types = list_matched_columns(match)
        self._matcher = matcher
        self._table = table
        self.is_complete = not self._table.rows
        """Whether all keys of the table are in memory, as far as they still have runs."""
        self.keys: dict[str, RunsOfKey] = {}
        """The runs in memory, by key; no list is empty."""
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
                packed = self._matcher.pack_runs(self._decode(rows, histories, runs))
                assert packed is not None, "a stored key has runs"
                self.keys[key] = packed

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
            encoder = _RunEncoder(self._matcher.matcher)
            for key in there:
                encoder.add_key(self._matcher.list_runs(self.keys[key]))
            columns = encoder.build_columns(self._row_types)
            self._table.put(pl.DataFrame([pl.Series(KEY, there, dtype=pl.String), *columns]))
        self.changed.clear()

    def load_all(self, keys: pl.Series) -> None:
        """Load the runs of all keys that the table has into memory."""
        self.load(keys)
        self.is_complete = True

    def drop_oldest(self, left: int) -> None:
        """Keep this number of keys in memory; all keys are in the table."""
        for key in list(islice(self.keys, max(len(self.keys) - left, 0))):
            del self.keys[key]
        self.is_complete = False

    def measure_size(self) -> StateSize:
        """Return the size of the runs in memory."""
        return StateSize(0, len(self.keys) * RUN_BYTES)

    def _list_values(self, found: pl.DataFrame, name: str) -> list[list[dict[str, Any]]]:
        column = found[name]
        return column.cast(to_physical_type(column.dtype)).to_list()

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
        return history, self._matcher.matcher.find_options(history, indexes)


class _RunEncoder:
    """The runs of keys as columns: flat lists first, since a dict for each value is slow.

    Rows and histories have numbers within their key; what is shared has one number.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._rows = _FlatLists(1)
        self._histories = _FlatLists(3)
        self._runs = _FlatLists(1)
        self._threads = _FlatLists(2)

    def add_key(self, runs: Iterable[Run]) -> None:
        """Add the runs of a key."""
        histories, found = _NumberedHistories(), list[tuple[Row, list[tuple[Any, ...]]]]()
        for run in runs:
            histories.rows[run.start[AT]] = run.start
            threads = [
                (histories.add(history), self._list_options(history, options))
                for history, options in run.threads
            ]
            found.append((run.start, threads))
        places = {at: number for number, at in enumerate(sorted(histories.rows))}
        self._rows.add([(histories.rows[at],) for at in places])
        self._histories.add(
            [(before, position, places[at]) for before, position, at in histories.values]
        )
        self._runs.add([(places[start[AT]],) for start, _ in found])
        for _, threads in found:
            self._threads.add(threads)

    def build_columns(self, row_types: Mapping[str, pl.DataType]) -> list[pl.Series]:
        """Return the columns of the table, with a list for each key."""
        import polars as pl

        (rows,) = self._rows.columns
        values = [
            pl.Series(name, [row[at] for row in rows], dtype=to_physical_type(type)).cast(type)
            for at, (name, type) in enumerate(row_types.items(), TIME)
        ]
        number = pl.Int32()
        names = ("before", "position", "row")
        histories = [
            pl.Series(name, values, dtype=number)
            for name, values in zip(names, self._histories.columns, strict=True)
        ]
        numbers, options = self._threads.columns
        threads = [
            pl.Series("history", numbers, dtype=number),
            pl.Series("options", options, dtype=pl.List(number)),
        ]
        runs = [
            pl.Series("start", self._runs.columns[0], dtype=number),
            self._threads.group("threads", threads),
        ]
        return [
            self._rows.group(MATCHED_ROWS, values),
            self._histories.group(HISTORIES, histories),
            self._runs.group(RUNS, runs),
        ]

    def _list_options(self, history: History, options: OptionSet | None) -> list[int] | None:
        return None if options is None else self._matcher.list_option_indexes(history, options)


class _NumberedHistories:
    """The histories of a key with their numbers, and their rows."""

    def __init__(self) -> None:
        self.rows = dict[int, Row]()
        """The rows by their places."""
        self.values = list[tuple[int | None, int, int]]()
        """The number of the history before, the position and the place of the row."""
        self._numbers = dict[int, int]()

    def add(self, history: History) -> int:
        """Return the number of a history; those before it have lower numbers."""
        pending, each = list[History](), history
        while each is not None and id(each) not in self._numbers:
            pending.append(each)
            each = each[0]  # type: ignore[assignment]
        for one in reversed(pending):
            before, position, row = one
            number = None if before is None else self._numbers[id(before)]
            self._numbers[id(one)] = len(self.values)
            self.values.append((number, position, row[AT]))
            self.rows[row[AT]] = row
        return self._numbers[id(history)]


class _FlatLists:
    """Lists of tuples, as the columns of all of them and the number of the list of each."""

    def __init__(self, width: int) -> None:
        self.columns: list[list[Any]] = [[] for _ in range(width)]
        self._owners = list[int]()
        self._count = 0

    def add(self, values: Sequence[tuple[Any, ...]]) -> None:
        """Add a list, which is not empty."""
        for column, found in zip(self.columns, zip(*values, strict=True), strict=True):
            column.extend(found)
        self._owners.extend([self._count] * len(values))
        self._count += 1

    def group(self, name: str, columns: Sequence[pl.Series]) -> pl.Series:
        """Return the lists of structs of these columns."""
        import polars as pl

        owner = pl.Series("owner", self._owners, dtype=pl.UInt32)
        flat = pl.DataFrame({"owner": owner, name: pl.DataFrame(columns).to_struct(name)})
        return flat.group_by("owner", maintain_order=True).agg(pl.col(name))[name]


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
