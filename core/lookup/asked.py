"""A table as the subtasks of a step ask it: remembered, on its way, or called for, in bulk.

A key that is on its way is not asked for twice. A call is given up when it takes too long, and
tried again after a while; what is left of it then is an error for each of its keys. Calls belong to
nobody: whoever waits for one may go away, and `close` ends them all.
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
"""How long is waited before a call is tried again: at first, and at most."""


@dataclass(slots=True)
class Asking:
    """What has been asked of a table, in figures."""

    keys: int = 0
    """Keys asked for; those of a batch once each."""
    known: int = 0
    """Those of them that were remembered, or on their way already."""
    calls: int = 0
    """Calls of the table, tries included."""
    failures: int = 0
    """Calls that were given up for good."""
    missed: int = 0
    """Rows for which the table had nothing."""

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
    """Keys that the table is asked for together, and who waits for them."""

    keys: pl.DataFrame
    listeners: list[Callable[[pl.DataFrame, BaseException | None], None]] = field(
        default_factory=list
    )


@dataclass(slots=True)
class Question:
    """The keys of one batch; `changed` is called whenever more of them are answered."""

    keys: int
    changed: Callable[[], None] = lambda: None
    left: int = 0
    """How many of them nobody has answered."""
    error: BaseException | None = None
    """Why a call failed for good, if one did."""
    parts: list[tuple[Sequence[int], pl.DataFrame]] = field(default_factory=list)
    """Answers that nobody has taken yet: of which keys, and the answer of each."""

    def answer(
        self, which: Sequence[int], answers: pl.DataFrame, error: BaseException | None = None
    ) -> None:
        """The answers for these keys."""
        self.parts.append((which, answers))
        self.left -= len(which)
        self.error = self.error or error
        self.changed()


class Asked:
    """One for all subtasks of a step within a process."""

    def __init__(self, lookup: nodes.Lookup, table: Table) -> None:
        self.table = table
        self.asking = Asking()
        self._lookup = lookup
        self._cache = Cache(lookup.cache_rows, lookup.cache_us / 1e6)
        self._on_their_way: dict[Hashable, tuple[Call, int]] = {}
        self._calling: set[asyncio.Task[None]] = set()
        self._room = Room(lookup.concurrency)

    def ask(self, keys: pl.DataFrame) -> Question:
        """Ask for keys, none of which is null, and each of which is there once."""
        question = Question(keys.height, left=keys.height)
        values = _values(keys)
        which, rows = self._cache.find(values, _now())
        self.asking.keys += keys.height
        self.asking.known += len(which)
        if which:
            question.answer(which, self._cache.answers(rows))
        known = set(which)
        new = [at for at, v in enumerate(values) if at not in known and not self._waits(v)]
        self._wait(question, [at for at in range(keys.height) if at not in known], values)
        most = self.table.keys_per_call
        for start in range(0, len(new), most):
            self._call(question, keys, values, new[start : start + most])
        return question

    def _waits(self, value: Hashable) -> bool:
        return value in self._on_their_way

    def _wait(self, question: Question, which: list[int], values: Sequence[Hashable]) -> None:
        """Take part in the calls that others have made for these keys."""
        calls: dict[int, tuple[Call, list[int], list[int]]] = {}
        for at in which:
            if entry := self._on_their_way.get(values[at]):
                call, row = entry
                _, mine, rows = calls.setdefault(id(call), (call, [], []))
                mine.append(at)
                rows.append(row)
        for call, mine, rows in calls.values():
            self.asking.known += len(mine)
            call.listeners.append(_listener(question, mine, rows))

    def _call(
        self, question: Question, keys: pl.DataFrame, values: Sequence[Hashable], new: list[int]
    ) -> None:
        call = Call(keys[new])
        call.listeners.append(_listener(question, new, None))
        mine = [values[at] for at in new]
        self._on_their_way.update((value, (call, row)) for row, value in enumerate(mine))
        task = asyncio.create_task(self._carry(call, mine))
        self._calling.add(task)
        task.add_done_callback(self._calling.discard)

    async def _carry(self, call: Call, values: Sequence[Hashable]) -> None:
        """Make a call, and hand on what comes of it."""
        error: BaseException | None = None
        try:
            answers = await self._tried(call.keys)
            sound = answers[ERROR].is_null()
            known = values if sound.all() else list(compress(values, sound))
            self._cache.remember(known, answers.filter(sound), _now())
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
        """Ask the table, again and again where that may help. Raises ConnectorError."""
        pause_s = FIRST_S
        for left in range(self._lookup.retries, -1, -1):
            try:
                return await self._once(keys, again=left < self._lookup.retries)
            except ConnectorError as error:
                if error.final or not left:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_S)
        raise AssertionError("the last try returns or raises")

    async def _once(self, keys: pl.DataFrame, *, again: bool) -> pl.DataFrame:
        async with self._room.place(again=again):
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
        """End all calls, and let go of the table."""
        for task in self._calling:
            task.cancel()
        if self._calling:
            await asyncio.gather(*self._calling, return_exceptions=True)
        await until_done(asyncio.create_task(self.table.close()))


ONE_ROW = "a lookup needs one row a key"


def once_each(keys: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """One row for each key that was found; of one with several, the row is an error."""
    import polars as pl

    again = found[FOUND_AT].is_duplicated()
    if not again.any():
        return found
    if ERROR not in found.columns:
        found = found.with_columns(pl.lit(None, dtype=pl.String).alias(ERROR))
    several = found.filter(again).unique(FOUND_AT, keep="first", maintain_order=True)
    why = [f"{twice(keys.row(at, named=True))}: {ONE_ROW}" for at in several[FOUND_AT]]
    several = several.with_columns(pl.Series(ERROR, why, dtype=pl.String))
    return pl.concat([found.filter(~again), several])


def twice(key: Mapping[str, object]) -> str:
    """The error of a table that has several rows for a key."""
    said = ", ".join(f"{name} = {value}" for name, value in key.items())
    return f"the table has several rows for {said}"


def _listener(
    question: Question, which: Sequence[int], rows: Sequence[int] | None
) -> Callable[[pl.DataFrame, BaseException | None], None]:
    """Who answers these keys of a question with rows of a call's answer, or with all of them."""

    def listen(answers: pl.DataFrame, error: BaseException | None) -> None:
        question.answer(which, answers if rows is None else answers[rows], error)

    return listen


def _values(keys: pl.DataFrame) -> list[Hashable]:
    """Each key as a value of Python."""
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
