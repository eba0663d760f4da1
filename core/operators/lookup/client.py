"""The client of a lookup table, shared by the subtasks of a step: cache, calls in flight, retries.

A key with a call in flight is not requested twice. A call that takes too long is abandoned and
retried after a pause; if the last retry fails, each of its keys gets an error. A call is owned by
the client, not by the request that caused it: a request may be cancelled, and `close` ends all
calls. The number of concurrent calls is limited; retries take precedence over first attempts:
ordered rows wait for them, and an unavailable server is then reported after the retries of one
call, not after a first attempt for every key."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from itertools import compress
from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import wait_until_done
from headrace.core.api.lookup_tables import LOOKUP_KEY_INDEX, LookupTable
from headrace.core.operators.lookup.answers import (
    ERROR,
    LookupCache,
    build_answers,
    build_failed_answers,
)
from headrace.core.plan import nodes
from headrace.core.plan.formatting import format_microseconds
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


class CallLimiter:
    """A semaphore that passes its slots to waiting calls, retries first."""

    def __init__(self, places: int) -> None:
        self._free_slots = places
        self._waiting_retries: deque[asyncio.Future[None]] = deque()
        self._waiting_calls: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def hold_slot(self, *, is_retry: bool) -> AsyncIterator[None]:
        """Hold a slot; wait for a free one, before all first attempts if the call is a retry."""
        if self._free_slots:
            self._free_slots -= 1
        else:
            await self._wait_for_slot(self._waiting_retries if is_retry else self._waiting_calls)
        try:
            yield
        finally:
            self._release_slot()

    async def _wait_for_slot(self, line: deque[asyncio.Future[None]]) -> None:
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release_slot()  # the slot was passed to this call at the same time
            with suppress(ValueError):
                line.remove(turn)
            raise

    def _release_slot(self) -> None:
        """Pass the slot on, or free it."""
        for line in (self._waiting_retries, self._waiting_calls):
            while line:
                turn = line.popleft()
                if not turn.done():
                    return turn.set_result(None)
        self._free_slots += 1
        return None


FIRST_PAUSE_S = 0.1


LONGEST_PAUSE_S = 10.0
"""The pause before a retry: the first one, and the longest."""


@dataclass(slots=True)
class LookupStatistics:
    """Counters of the requests to a table."""

    keys: int = 0
    """Requested keys; a batch counts each of its keys once."""
    known: int = 0
    """Requested keys that were in the cache or in flight."""
    calls: int = 0
    """Calls of the table, including retries."""
    failures: int = 0
    """Calls that failed after all retries."""
    missed: int = 0
    """Rows without a match in the table."""

    def document(self) -> dict[str, int]:
        """Returns the figures under the names that programs know them by."""
        return {
            "keys": self.keys,
            "known": self.known,
            "calls": self.calls,
            "failures": self.failures,
            "missed": self.missed,
        }


@dataclass(slots=True)
class LookupCall:
    """The keys of one call of the table, and the listeners for its answers."""

    keys: pl.DataFrame
    listeners: list[Callable[[pl.DataFrame, BaseException | None], None]] = field(
        default_factory=list
    )


@dataclass(slots=True)
class LookupRequest:
    """The request for the keys of one batch; `on_change` is called whenever answers arrive."""

    keys: int
    on_change: Callable[[], None] = lambda: None
    keys_left: int = 0
    """The number of keys without an answer."""
    error: BaseException | None = None
    """The error of a call that failed after all retries, if any."""
    parts: list[tuple[Sequence[int], pl.DataFrame]] = field(default_factory=list)
    """Answers that were not taken yet: the indices of their keys, and the answers."""

    def add_answers(
        self, indices: Sequence[int], answers: pl.DataFrame, error: BaseException | None = None
    ) -> None:
        """Add the answers for the keys at these indices."""
        self.parts.append((indices, answers))
        self.keys_left -= len(indices)
        self.error = self.error or error
        self.on_change()


class LookupClient:
    """Requests keys of a table, for all subtasks of a step within a process."""

    def __init__(self, lookup: nodes.Lookup, table: LookupTable) -> None:
        self.table = table
        self.statistics = LookupStatistics()
        self._lookup = lookup
        self._cache = LookupCache(lookup.cache_rows, lookup.cache_us / 1e6)
        self._in_flight: dict[Hashable, tuple[LookupCall, int]] = {}
        self._call_tasks: set[asyncio.Task[None]] = set()
        self._limiter = CallLimiter(lookup.concurrency)

    def request(self, keys: pl.DataFrame) -> LookupRequest:
        """Request keys, which are distinct and not null."""
        request = LookupRequest(keys.height, keys_left=keys.height)
        values = _to_hashable(keys)
        indices, rows = self._cache.find(values, _get_loop_time())
        self.statistics.keys += keys.height
        self.statistics.known += len(indices)
        if indices:
            request.add_answers(indices, self._cache.get_answers(rows))
        known = set(indices)
        new = [at for at, v in enumerate(values) if at not in known and not self._is_in_flight(v)]
        self._join_calls(request, [at for at in range(keys.height) if at not in known], values)
        max_keys = self.table.max_keys_per_call
        for start in range(0, len(new), max_keys):
            self._start_call(request, keys, values, new[start : start + max_keys])
        return request

    def _is_in_flight(self, value: Hashable) -> bool:
        return value in self._in_flight

    def _join_calls(
        self, request: LookupRequest, indices: list[int], values: Sequence[Hashable]
    ) -> None:
        """Subscribe the request to calls in flight for these keys."""
        calls: dict[int, tuple[LookupCall, list[int], list[int]]] = {}
        for at in indices:
            if entry := self._in_flight.get(values[at]):
                call, row = entry
                _, own, rows = calls.setdefault(id(call), (call, [], []))
                own.append(at)
                rows.append(row)
        for call, own, rows in calls.values():
            self.statistics.known += len(own)
            call.listeners.append(_build_listener(request, own, rows))

    def _start_call(
        self, request: LookupRequest, keys: pl.DataFrame, values: Sequence[Hashable], new: list[int]
    ) -> None:
        call = LookupCall(keys[new])
        call.listeners.append(_build_listener(request, new, None))
        own = [values[at] for at in new]
        self._in_flight.update((value, (call, row)) for row, value in enumerate(own))
        task = asyncio.create_task(self._run_call(call, own))
        self._call_tasks.add(task)
        task.add_done_callback(self._call_tasks.discard)

    async def _run_call(self, call: LookupCall, values: Sequence[Hashable]) -> None:
        """Make a call, cache its answers, and pass them to its listeners."""
        error: BaseException | None = None
        try:
            answers = await self._call_with_retries(call.keys)
            valid = answers[ERROR].is_null()
            known = values if valid.all() else list(compress(values, valid))
            self._cache.store(known, answers.filter(valid), _get_loop_time())
        except asyncio.CancelledError:
            raise
        except BaseException as caught:
            self.statistics.failures += 1
            error = caught
            answers = build_failed_answers(call.keys.height, self._lookup, _format_error(caught))
        finally:
            for value in values:
                del self._in_flight[value]
        for listener in call.listeners:
            listener(answers, error)

    async def _call_with_retries(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Call the table, with retries unless an error is final. Raises ConnectorError."""
        pause_s = FIRST_PAUSE_S
        for remaining_retries in range(self._lookup.retries, -1, -1):
            try:
                return await self._call_table(
                    keys, is_retry=remaining_retries < self._lookup.retries
                )
            except ConnectorError as error:
                if error.is_final or not remaining_retries:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise AssertionError("the last try returns or raises")

    async def _call_table(self, keys: pl.DataFrame, *, is_retry: bool) -> pl.DataFrame:
        async with self._limiter.hold_slot(is_retry=is_retry):
            self.statistics.calls += 1
            try:
                async with asyncio.timeout(self._lookup.timeout_us / 1e6):
                    found = await self.table.find(keys)
            except TimeoutError:
                waited = format_microseconds(self._lookup.timeout_us)
                raise ConnectorError(f"no answer within {waited}") from None
        return build_answers(keys.height, keep_one_row_per_key(keys, found), self._lookup)

    async def close(self) -> None:
        """Cancel all calls, and close the table."""
        for task in self._call_tasks:
            task.cancel()
        if self._call_tasks:
            await asyncio.gather(*self._call_tasks, return_exceptions=True)
        await wait_until_done(asyncio.create_task(self.table.close()))


ONE_ROW_HINT = "a lookup needs one row per key"


def keep_one_row_per_key(keys: pl.DataFrame, table_rows: pl.DataFrame) -> pl.DataFrame:
    """Keep one row per key; a key with several rows gets one row with an error."""
    import polars as pl

    repeated = table_rows[LOOKUP_KEY_INDEX].is_duplicated()
    if not repeated.any():
        return table_rows
    if ERROR not in table_rows.columns:
        table_rows = table_rows.with_columns(pl.lit(None, dtype=pl.String).alias(ERROR))
    several = table_rows.filter(repeated).unique(
        LOOKUP_KEY_INDEX, keep="first", maintain_order=True
    )
    why = [
        f"{format_duplicate_error(keys.row(at, named=True))}: {ONE_ROW_HINT}"
        for at in several[LOOKUP_KEY_INDEX]
    ]
    several = several.with_columns(pl.Series(ERROR, why, dtype=pl.String))
    return pl.concat([table_rows.filter(~repeated), several])


def format_duplicate_error(key: Mapping[str, object]) -> str:
    """Format the error for a key with several rows."""
    described = ", ".join(f"{name} = {value}" for name, value in key.items())
    return f"the table has several rows for {described}"


def _build_listener(
    request: LookupRequest, indices: Sequence[int], rows: Sequence[int] | None
) -> Callable[[pl.DataFrame, BaseException | None], None]:
    """Build a listener that answers these keys from rows of a call's answers; None: from all."""

    def listen(answers: pl.DataFrame, error: BaseException | None) -> None:
        request.add_answers(indices, answers if rows is None else answers[rows], error)

    return listen


def _to_hashable(keys: pl.DataFrame) -> list[Hashable]:
    """Return each key as a hashable Python value."""
    if keys.width == 1:
        return list(keys.to_series().to_physical().to_list())
    return list(keys.select(_physical_expr()).iter_rows())


def _physical_expr() -> pl.Expr:
    import polars as pl

    return pl.all().to_physical()


def _format_error(error: BaseException) -> str:
    return error.message if isinstance(error, ConnectorError) else str(error)


def _get_loop_time() -> float:
    return asyncio.get_running_loop().time()
