"""The calls of a trigger class, whose state and timers are stored with each window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.user_partials import InvalidGroupResult, build_series, describe_value
from headrace.core.api.state import NO_CLOCK_US
from headrace.core.api.user_code import (
    UserCodeError,
    format_row,
    format_value,
    reraise_interrupt,
)
from headrace.core.api.window_classes import EPOCH
from headrace.core.api.window_classes import Trigger as TriggerClass
from headrace.core.api.window_classes import Window as Named
from headrace.core.operators.folds import Fold
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.process.user_class import SOURCE_HINT, get_states
from headrace.core.plan.nodes.windows import Trigger, Window
from headrace.core.types.data_types import quote_name, to_polars
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.out_of_range_times import find_out_of_range_columns, format_out_of_range

if TYPE_CHECKING:
    import polars as pl

STATE_PREFIX = "__t."
"""Before the names of the columns of the state of a class."""
NEW_SUFFIX = "__new"
"""The suffix of a column for its new value."""


class TriggerStateFold:
    """Another fold, with the state of a trigger class in each window.

    Of the states of a window that are merged, at most one has state of the class.
    """

    def __init__(self, fold: Fold, trigger: Trigger) -> None:
        assert trigger.state is not None and trigger.input_columns is not None
        self._fold = fold
        self._trigger_state = {f"{STATE_PREFIX}{f.name}": to_polars(f.type) for f in trigger.state}
        self.input_columns = fold.input_columns | {*trigger.input_columns.names}
        self.state_columns: Mapping[str, pl.DataType] = {
            **fold.state_columns,
            **self._trigger_state,
        }
        self.finish = fold.finish

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the states of rows, without state of the class."""
        import polars as pl

        nothing = (
            pl.lit(None, dtype=type).alias(name) for name, type in self._trigger_state.items()
        )
        return self._fold.begin(rows, by).with_columns(nothing)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge states, with the class's state from the one that has it."""
        import polars as pl

        merged = self._fold.merge(states, by)
        if not self._trigger_state:
            return merged
        kept = [pl.col(name).drop_nulls().first() for name in self._trigger_state]
        if not by:
            return merged.hstack(states.select(kept))
        return merged.join(states.group_by(by).agg(kept), on=by, nulls_equal=True)


@dataclass(slots=True)
class OpenWindow:
    """A window of a key while a trigger class is called for it."""

    bounds: Mapping[str, object]
    """The columns that name it."""
    window: Named
    end_us: int
    has_ended: bool
    state: dict[str, Any]
    """The state of the class, with its timers."""
    firings: int = 0


class TriggerCaller:
    """The caller of one trigger class; it is the context of the calls."""

    def __init__(
        self, window: Window, error_context: GroupErrorContext, context: KeyedContext
    ) -> None:
        trigger = window.trigger
        assert trigger is not None
        assert trigger.code is not None and trigger.state is not None
        assert trigger.input_columns is not None
        self.state_fields = {field.name: field for field in trigger.state}
        self.timers = dict(trigger.timers)
        """The names of timers, and whether each is by the wall clock."""
        self.timer: str | None = None
        self.now_us: Callable[[], int] = context.now_us
        self.reached_us = NO_CLOCK_US
        """The watermark that has arrived, while timers fire before the clock of windows is set."""
        self._by_wall_clock = window.uses_processing_time
        self._code = trigger.code
        self._context = context
        self._row_columns = trigger.input_columns.names
        self._error_context = error_context
        self._instance: Any = None

    @property
    def watermark_us(self) -> int | None:
        """The current watermark; None before the first one, and in windows by the wall clock."""
        clock_us = max(self._context.state.clock_us, self.reached_us)
        return None if self._by_wall_clock or clock_us == NO_CLOCK_US else clock_us

    def create_state(self) -> dict[str, Any]:
        """Return the state of a new window."""
        return dict.fromkeys(self.state_fields)

    def build_window(self, bounds: Mapping[str, object]) -> Named:
        """Build the window object that the class receives."""
        return self._error_context.build_window(bounds)

    def iterate_rows(self, rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as the class gets them."""
        shown = rows.select(self._row_columns)
        for at, column in enumerate(find_out_of_range_columns(shown)):
            if column is not None:
                name = f"{self._code.display_name}: column {quote_name(column)}"
                row = format_row(format_out_of_range(shown.slice(at, 1)).row(0, named=True))
                message = f"{name} has a time outside the years 1 to 9999 (in the row {row})"
                hint = "Python has no such time: drop it before the step, or cast it to string"
                raise UserCodeError(message, hint)
        return shown.iter_rows(named=True)

    def call_row(self, window: OpenWindow, row: dict[str, Any]) -> bool:
        """Return whether a window fires with this row."""
        instance = self._instance or self._create_instance()
        return self._check(
            window, "on_row", lambda: instance.on_row(row, window.state, window.window)
        )

    def call_timer(self, window: OpenWindow, name: str) -> bool:
        """Return whether a window fires as its timer is due."""
        instance = self._instance or self._create_instance()
        at, window.state[name], self.timer = window.state[name], None, name
        try:
            return self._check(
                window, "on_timer", lambda: instance.on_timer(at, window.state, window.window)
            )
        finally:
            self.timer = None

    def merge_states(self, states: Sequence[dict[str, Any]], window: OpenWindow) -> dict[str, Any]:
        """Return the state of a session that a row makes of several, in the order of time."""
        if not self.state_fields:
            return self.create_state()
        instance = self._instance or self._create_instance()
        if not hasattr(instance, "merge"):
            message = f"{self._code.display_name} has no method merge, for joined sessions"
            hint = "write def merge(self, states): it returns one state for several"
            raise UserCodeError(message, hint)
        try:
            merged = instance.merge([dict(state) for state in states])
        except BaseException as error:
            reraise_interrupt(error)
            failed = UserCodeError(self._code.format_error(error))
            raise self.add_context(failed, window.bounds) from error
        if not isinstance(merged, dict):
            message = f"merge must return a dict, got {describe_value(merged)}"
            failed = UserCodeError(f"{self._code.display_name}: {message}")
            raise self.add_context(failed, window.bounds)
        window.state = dict(merged)
        self._check_state(window)
        return window.state

    def read_states(self, windows: pl.DataFrame) -> list[dict[str, Any]]:
        """Return the stored state of each window."""
        import polars as pl

        if not self.state_fields:
            return [{} for _ in range(windows.height)]
        names = [pl.col(f"{STATE_PREFIX}{name}").alias(name) for name in self.state_fields]
        return windows.select(names).to_dicts()

    def get_timer_us(self, state: Mapping[str, Any], name: str) -> int | None:
        """Return the time to which a timer is set."""
        at = state[name]
        return None if at is None else (at - EPOCH) // timedelta(microseconds=1)

    def build_state_column(self, name: str, windows: Sequence[OpenWindow]) -> pl.Series:
        """Return a column with a value of the state of each window."""
        what = f'{self._code.display_name} keeps a "{name}"'
        values = [window.state[name] for window in windows]
        try:
            type = self.state_fields[name].type
            return build_series(f"{STATE_PREFIX}{name}{NEW_SUFFIX}", values, type, what)
        except InvalidGroupResult as unfit:
            raise self.add_context(unfit, windows[unfit.at].bounds) from unfit.__cause__

    def replace_states(self, stored: pl.DataFrame, windows: Sequence[OpenWindow]) -> pl.DataFrame:
        """Return stored windows with their state as it is now."""
        columns = (self.build_state_column(name, windows) for name in self.state_fields)
        return stored.with_columns(
            column.alias(column.name.removesuffix(NEW_SUFFIX)) for column in columns
        )

    def add_context(self, error: UserCodeError, bounds: Mapping[str, object]) -> UserCodeError:
        """Add the key and the window to an error."""
        where = self._error_context.describe_group(bounds)
        return UserCodeError(f"{error.message} ({where})" if where else error.message, error.hint)

    def _check(self, window: OpenWindow, method: str, call: Callable[[], object]) -> bool:
        """Return the answer of a method, if it and the state are valid after the call."""
        try:
            answer = call()
        except BaseException as error:
            reraise_interrupt(error)
            failed = UserCodeError(self._code.format_error(error))
            raise self.add_context(failed, window.bounds) from error
        self._check_state(window)
        if not isinstance(answer, bool):
            message = f"{method} must return True or False, got {type(answer).__name__}"
            misfit = UserCodeError(f"{self._code.display_name}: {message}")
            raise self.add_context(misfit, window.bounds)
        return answer

    def _check_state(self, window: OpenWindow) -> None:
        state, name = window.state, self._code.display_name
        if state.keys() != self.state_fields.keys():
            known = ", ".join(self.state_fields) or "nothing"
            message = f"{name} keeps {', '.join(state) or 'nothing'}, not {known}"
            hint = f'declare it in class {self._code.name}, as in state = {{"n": "bigint"}}'
            raise self.add_context(UserCodeError(message, hint), window.bounds)
        for timer in self.timers:
            at = state[timer]
            if isinstance(at, datetime):
                state[timer] = at.replace(tzinfo=UTC) if at.tzinfo is None else at
            elif at is not None:
                message = f'{name} sets the timer "{timer}" to {format_value(at)}'
                hint = "set it to a datetime, or to None to delete it"
                raise self.add_context(UserCodeError(message, hint), window.bounds)

    def _create_instance(self) -> Any:
        """Create the object of the class. Raises UserCodeError if it is no trigger."""
        kind: Any = self._code.load()
        name = self._code.display_name
        if getattr(kind, "on_row", TriggerClass.on_row) is TriggerClass.on_row:
            hint = "write def on_row(self, row, state, window): it returns whether the window fires"
            raise UserCodeError(f"{name} has no method on_row", hint)
        declared = {n: each.processing for n, each in get_states(kind).items()}
        if declared != self.timers:
            differing = next(n for n in (*declared, *self.timers) if n not in self.timers)
            raise UserCodeError(
                f'{name}: timer "{differing}" is not found in its source text', SOURCE_HINT
            )
        try:
            instance = kind()
        except BaseException as error:
            reraise_interrupt(error)
            message = f"{self._code.format_error(error)} (making a {self._code.name})"
            raise UserCodeError(message) from error
        if isinstance(instance, TriggerClass):
            instance._set_context(self)
        self._instance = instance
        return instance
