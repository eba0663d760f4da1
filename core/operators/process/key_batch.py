"""States and timers of many keys in columns, as `on_rows` gets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY, KEY_INDEX, KeyedTable
from headrace.core.api.user_code import UserCodeError
from headrace.core.operators.process.cell_cache import VALUE_COLUMN, get_column_type
from headrace.core.operators.process.cell_class import describe_undeclared
from headrace.core.operators.process.timers import TimerService
from headrace.core.process.declarations import Declared, Kind
from headrace.core.types.elements import EVENT_TIME
from headrace.core.types.frames import to_integers
from headrace.core.types.key_groups import encode_keys

if TYPE_CHECKING:
    import polars as pl

KEY_NUMBER = "__of"
ROW_NUMBER = "__row"


class KeyBatch:
    """The rows of a batch, and which of them have equal keys."""

    def __init__(self, frame: pl.DataFrame, key: tuple[str, ...], clock_us: int) -> None:
        """`key` are the columns of the key."""
        self.frame = frame
        self._clock_us = clock_us
        self.keys, self.key_numbers = _number_keys(frame, key)
        self._key = key
        self._last: pl.Series | None = None

    @property
    def encoded_keys(self) -> pl.Series:
        """The distinct keys, encoded."""
        return encode_keys(self.keys)

    @property
    def last_rows(self) -> pl.Series:
        """The number of the last row of each key."""
        import polars as pl

        if self._last is None:
            none = pl.Series([0], dtype=pl.UInt32).new_from_index(0, self.keys.height)
            # Of several rows scattered to one index, the last one stays.
            rows = pl.int_range(len(self.key_numbers), dtype=pl.UInt32, eager=True)
            self._last = none.scatter(self.key_numbers, rows)
        return self._last

    @property
    def times(self) -> pl.Series | None:
        """The time at each row in microseconds: its own, or the clock if that is ahead.

        None if rows have no event time.
        """
        if EVENT_TIME not in self.frame.columns:
            return None
        times = to_integers(self.frame[EVENT_TIME])
        return times if int(times.min()) >= self._clock_us else times.clip(self._clock_us)  # type: ignore[arg-type]


def _number_keys(frame: pl.DataFrame, key: tuple[str, ...]) -> tuple[pl.DataFrame, pl.Series]:
    """Return the distinct keys, and the number of each row's key among them."""
    import polars as pl

    keys = frame.select(key)
    by = encode_joinable(keys)
    distinct = by.with_row_index(ROW_NUMBER).unique(by.columns, keep="first", maintain_order=True)
    numbered = distinct.drop(ROW_NUMBER).with_row_index(KEY_NUMBER)
    of = by.join(numbered, on=by.columns, how="left", nulls_equal=True, maintain_order="left")[
        KEY_NUMBER
    ]
    return keys[distinct[ROW_NUMBER]], of.cast(pl.UInt32)


def encode_joinable(keys: pl.DataFrame) -> pl.DataFrame:
    """Return columns by which keys can be joined: joins do not always find NaN."""
    floats = any(type.is_float() for type in keys.dtypes)
    return encode_keys(keys).to_frame(KEY) if floats else keys


class BatchStateColumn:
    """One state of the batch's keys, as a column (`core/process/process`)."""

    def __init__(
        self, name: str, declared: Declared, table: KeyedTable, now_us: Callable[[], int]
    ) -> None:
        self._name = name
        self._declared = declared
        self._table = table
        self._now_us = now_us
        self._type = get_column_type(declared)
        self.batch: KeyBatch | None = None
        self.keys: pl.Series | None = None
        self._before: pl.Series | None = None
        self._next: pl.DataFrame | None = None

    def start_batch(self, batch: KeyBatch, keys: pl.Series) -> None:
        """Start a batch; `keys` are its distinct keys, encoded."""
        self.batch, self.keys, self._before = batch, keys, None

    def get(self) -> pl.Series:
        """Return, for each row, the value of its key before the batch."""
        self._before = self._load_values() if self._before is None else self._before
        return self._before

    def set(self, values: pl.Series) -> None:
        """Set a value for each row; each key keeps the value of its last row."""
        import polars as pl

        rows, keys = self._get_batch(), self.keys
        assert keys is not None
        self._validate(values)
        last = values.gather(rows.last_rows).cast(self._type).alias(VALUE_COLUMN)
        until = [] if self._declared.ttl_us is None else [self._compute_expiry(rows)]
        self._next = pl.DataFrame([keys.alias(KEY), last, *until])

    def finish_batch(self) -> None:
        """Finish the batch: store the values that were set. Until then `get` is unaffected."""
        frame, self.batch, self._next = self._next, None, None
        if frame is not None:
            is_set = frame[VALUE_COLUMN].is_not_null()
            if not is_set.all():
                self._table.remove(frame.filter(~is_set)[KEY])
                frame = frame.filter(is_set)
            if frame.height:
                self._table.put(frame)

    def _load_values(self) -> pl.Series:
        import polars as pl

        rows, keys = self._get_batch(), self.keys
        assert keys is not None
        stored_rows = self._table.find(keys)
        index = pl.Series([None], dtype=pl.UInt32).new_from_index(0, len(keys))
        index = index.scatter(stored_rows[KEY_INDEX], pl.int_range(stored_rows.height, eager=True))
        of = index.gather(rows.key_numbers)
        values = stored_rows[VALUE_COLUMN].gather(of).alias(self._name)
        if EXPIRY in stored_rows.columns:
            now = pl.Series([self._now_us()], dtype=pl.Int64).new_from_index(0, len(of))
            times = now if self._declared.processing or rows.times is None else rows.times
            frame = pl.DataFrame({"v": values, "u": stored_rows[EXPIRY].gather(of), "t": times})
            over = pl.when(pl.col("u") < pl.col("t")).then(None).otherwise(pl.col("v"))
            values = frame.select(over.alias(self._name)).to_series()
        default = self._declared.default
        return values if default is None else values.fill_null(pl.lit(default, dtype=self._type))

    def _compute_expiry(self, rows: KeyBatch) -> pl.Series:
        import polars as pl

        assert self._declared.ttl_us is not None
        if self._declared.processing or rows.times is None:
            until = pl.Series([self._now_us()], dtype=pl.Int64).new_from_index(
                0, len(rows.last_rows)
            )
        else:
            until = rows.times.gather(rows.last_rows)
        return (until + self._declared.ttl_us).alias(EXPIRY)

    def _get_batch(self) -> KeyBatch:
        if self.batch is None:
            raise RuntimeError("no rows are being handled")
        return self.batch

    def _validate(self, values: object) -> None:
        import polars as pl

        what = f'state "{self._name}" is a {self._declared}'
        if not isinstance(values, pl.Series):
            raise TypeError(f"{what}: it must be set to a Series, got {type(values).__name__}")
        rows = self._get_batch().frame.height
        if len(values) != rows:
            raise ValueError(f"{what}: wanted a value for each of {rows} rows, got {len(values)}")
        if values.dtype not in (self._type, pl.Null):
            raise TypeError(f"{what}, a column of {self._type}, and was set to {values.dtype}")


class BatchTimerColumn(BatchStateColumn):
    """A timer of the batch's keys. A timer that is set to a past time fires at once."""

    service: TimerService

    def set(self, values: pl.Series) -> None:
        """Set a time for each row; each key keeps the time of its last row."""
        import polars as pl

        self._validate(values)
        rows = self._get_batch()
        at = values.cast(self._type).to_physical().cast(pl.Int64)
        if not self._declared.processing and rows.times is not None:
            frame = pl.DataFrame({"at": at, "time": rows.times})
            later = pl.max_horizontal("at", "time")
            at = frame.select(pl.when(pl.col("at").is_not_null()).then(later)).to_series()
        super().set(at.cast(self._type))
        last = at.gather(rows.last_rows)
        there = last.is_not_null()
        self.service.set_timers(rows.keys.filter(there), self._name, last.filter(there))


class BatchStateColumns:
    """The states of a class by name (`AllState`), and no other attributes: any name may be one."""

    def __init__(self, columns: Mapping[str, BatchStateColumn]) -> None:
        self.__columns = columns

    def __getattr__(self, name: str) -> BatchStateColumn:
        if name in self.__columns:
            return self.__columns[name]
        raise AttributeError(describe_undeclared(name, tuple(self.__columns)))


def build_state_columns(
    states: Mapping[str, Declared],
    tables: Mapping[str, KeyedTable],
    now_us: Callable[[], int],
    due: Callable[[Declared], TimerService | None],
) -> dict[str, BatchStateColumn]:
    """Build the columns of a class's states. Raises UserCodeError."""
    columns: dict[str, BatchStateColumn] = {}
    for name, declared in states.items():
        if declared.kind in (Kind.LIST, Kind.MAP) and declared.ttl_us is not None:
            message = f'state "{name}" is a {declared}, which on_rows does not support'
            raise UserCodeError(message, "remove its ttl, or handle rows with on_row")
        kind = BatchTimerColumn if declared.kind is Kind.TIMER else BatchStateColumn
        made = columns[name] = kind(name, declared, tables[name], now_us)
        if isinstance(made, BatchTimerColumn):
            found = due(declared)
            assert found is not None, "a class that declares timers has a timer service"
            made.service = found
    return columns
