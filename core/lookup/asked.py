"""The client of a lookup table, shared by the subtasks of a step: cache, calls in flight, retries.

A key with a call in flight is not requested twice. A call that takes too long is abandoned and
retried after a pause; if the last retry fails, each of its keys gets an error. A call is owned by
the client, not by the request that caused it: a request may be cancelled, and `close` ends all
calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING

from headrace.core.bench import until_done
from headrace.core.contracts import FOUND_AT, ConnectorError, Table
from headrace.core.lookup.answers import ERROR, answered, failed
from headrace.core.lookup.cache import Cache
from headrace.core.lookup.room import Room
from headrace.core.plan import nodes
from headrace.core.plan.wording import duration_said

if TYPE_CHECKING:
    import polars as pl

FIRST_S = 0.1
LONGEST_S = 10.0
"""The pause before a retry: the first one, and the longest."""


@dataclass(slots=True)
class Asking:
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
class Call:
    """The keys of one call of the table, and the listeners for its answers."""

    keys: pl.DataFrame
    listeners: list[Callable[[pl.DataFrame, BaseException | None], None]] = field(
        default_factory=list
    )


@dataclass(slots=True)
class Question:
    """The request for the keys of one batch; `changed` is called whenever answers arrive."""

    keys: int
    changed: Callable[[], None] = lambda: None
    left: int = 0
    """The number of keys without an answer."""
    error: BaseException | None = None
    """The error of a call that failed after all retries, if any."""
    parts: list[tuple[Sequence[int], pl.DataFrame]] = field(default_factory=list)
    """Answers that were not taken yet: the indices of their keys, and the answers."""

    def answer(
        self, indices: Sequence[int], answers: pl.DataFrame, error: BaseException | None = None
    ) -> None:
        """Add the answers for the keys at these indices."""
        self.parts.append((indices, answers))
        self.left -= len(indices)
        self.error = self.error or error
        self.changed()


class Asked:
    """Requests keys of a table, for all subtasks of a step within a process."""

    def __init__(self, lookup: nodes.Lookup, table: Table) -> None:
        self.table = table
        self.asking = Asking()
        self._lookup = lookup
        self._cache = Cache(lookup.cache_rows, lookup.cache_us / 1e6)
        self._on_their_way: dict[Hashable, tuple[Call, int]] = {}
        self._calling: set[asyncio.Task[None]] = set()
        self._room = Room(lookup.concurrency)

    def ask(self, keys: pl.DataFrame) -> Question:
        """Request keys, which are distinct and not null."""
        request = Question(keys.height, left=keys.height)
        values = _values(keys)
        indices, rows = self._cache.find(values, _now())
        self.asking.keys += keys.height
        self.asking.known += len(indices)
        if indices:
            request.answer(indices, self._cache.answers(rows))
        known = set(indices)
        new = [at for at, v in enumerate(values) if at not in known and not self._waits(v)]
        self._wait(request, [at for at in range(keys.height) if at not in known], values)
        max_keys = self.table.keys_per_call
        for start in range(0, len(new), max_keys):
            self._call(request, keys, values, new[start : start + max_keys])
        return request

    def _waits(self, value: Hashable) -> bool:
        return value in self._on_their_way

    def _wait(self, request: Question, indices: list[int], values: Sequence[Hashable]) -> None:
        """Subscribe the request to calls in flight for these keys."""
        calls: dict[int, tuple[Call, list[int], list[int]]] = {}
        for at in indices:
            if entry := self._on_their_way.get(values[at]):
                call, row = entry
                _, own, rows = calls.setdefault(id(call), (call, [], []))
                own.append(at)
                rows.append(row)
        for call, own, rows in calls.values():
            self.asking.known += len(own)
            call.listeners.append(_listener(request, own, rows))

    def _call(
        self, request: Question, keys: pl.DataFrame, values: Sequence[Hashable], new: list[int]
    ) -> None:
        call = Call(keys[new])
        call.listeners.append(_listener(request, new, None))
        own = [values[at] for at in new]
        self._on_their_way.update((value, (call, row)) for row, value in enumerate(own))
        task = asyncio.create_task(self._carry(call, own))
        self._calling.add(task)
        task.add_done_callback(self._calling.discard)

    async def _carry(self, call: Call, values: Sequence[Hashable]) -> None:
        """Make a call, cache its answers, and pass them to its listeners."""
        error: BaseException | None = None
        try:
            answers = await self._tried(call.keys)
            valid = answers[ERROR].is_null()
            known = values if valid.all() else list(compress(values, valid))
            self._cache.remember(known, answers.filter(valid), _now())
        except asyncio.CancelledError:
            raise
        except BaseException as caught:
            self.asking.failures += 1
            error = caught
            answers = failed(call.keys.height, self._lookup, _said(caught))
        finally:
            for value in values:
                del self._on_their_way[value]
        for listener in call.listeners:
            listener(answers, error)

    async def _tried(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Call the table, with retries unless an error is final. Raises ConnectorError."""
        pause_s = FIRST_S
        for left in range(self._lookup.retries, -1, -1):
            try:
                return await self._once(keys, is_retry=left < self._lookup.retries)
            except ConnectorError as error:
                if error.final or not left:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_S)
        raise AssertionError("the last try returns or raises")

    async def _once(self, keys: pl.DataFrame, *, is_retry: bool) -> pl.DataFrame:
        async with self._room.place(is_retry=is_retry):
            self.asking.calls += 1
            try:
                async with asyncio.timeout(self._lookup.timeout_us / 1e6):
                    found = await self.table.find(keys)
            except TimeoutError:
                from datetime import timedelta

                waited = duration_said(timedelta(microseconds=self._lookup.timeout_us))
                raise ConnectorError(f"no answer within {waited}") from None
        return answered(keys.height, once_each(keys, found), self._lookup)

    async def close(self) -> None:
        """Cancel all calls, and close the table."""
        for task in self._calling:
            task.cancel()
        if self._calling:
            await asyncio.gather(*self._calling, return_exceptions=True)
        await until_done(asyncio.create_task(self.table.close()))


ONE_ROW = "a lookup needs one row per key"


def once_each(keys: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Keep one row per key; a key with several rows gets one row with an error."""
    import polars as pl

    repeated = found[FOUND_AT].is_duplicated()
    if not repeated.any():
        return found
    if ERROR not in found.columns:
        found = found.with_columns(pl.lit(None, dtype=pl.String).alias(ERROR))
    several = found.filter(repeated).unique(FOUND_AT, keep="first", maintain_order=True)
    why = [f"{twice(keys.row(at, named=True))}: {ONE_ROW}" for at in several[FOUND_AT]]
    several = several.with_columns(pl.Series(ERROR, why, dtype=pl.String))
    return pl.concat([found.filter(~repeated), several])


def twice(key: Mapping[str, object]) -> str:
    """Format the error for a key with several rows."""
    described = ", ".join(f"{name} = {value}" for name, value in key.items())
    return f"the table has several rows for {described}"


def _listener(
    request: Question, indices: Sequence[int], rows: Sequence[int] | None
) -> Callable[[pl.DataFrame, BaseException | None], None]:
    """Build a listener that answers these keys from rows of a call's answers; None: from all."""

    def listen(answers: pl.DataFrame, error: BaseException | None) -> None:
        request.answer(indices, answers if rows is None else answers[rows], error)

    return listen


def _values(keys: pl.DataFrame) -> list[Hashable]:
    """Return each key as a hashable Python value."""
    if keys.width == 1:
        return list(keys.to_series().to_physical().to_list())
    return list(keys.select(_physical()).iter_rows())


def _physical() -> pl.Expr:
    import polars as pl

    return pl.all().to_physical()


def _said(error: BaseException) -> str:
    return error.message if isinstance(error, ConnectorError) else str(error)


def _now() -> float:
    return asyncio.get_running_loop().time()
