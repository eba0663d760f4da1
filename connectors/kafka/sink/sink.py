"""The Kafka sink: checks before a run, writers, and commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aiokafka import errors as kafka

from headrace.connectors.kafka.sink.batches import Place
from headrace.connectors.kafka.sink.encoding import Encoding, Recipe
from headrace.connectors.kafka.sink.link import Link
from headrace.connectors.kafka.sink.transactions import Transactions, end, lost, too_long
from headrace.connectors.kafka.sink.wire import BROKER, Wire
from headrace.connectors.kafka.sink.writer import (
    Habits,
    Output,
    PlainWriter,
    TransactionalWriter,
)
from headrace.core import faults
from headrace.core.bench import Bench
from headrace.core.contracts import Commits, ConnectorError, Writer
from headrace.core.messages import Handle
from headrace.core.state import Document

LONGEST = "transaction.max.timeout.ms"
ABORT_S = 10.0


@dataclass(slots=True)
class KafkaOut:
    """The `SinkConnector` over topics; without transactions it writes at least once."""

    name: str
    link: Link
    recipe: Recipe
    habits: Habits
    bench: Bench
    transactions: Transactions
    commits: Commits | None = None
    on_lost: Literal["fail", "warn"] = "fail"
    limited: bool = False
    """Whether `--limit` downgrades exactly once to at least once, as it takes no checkpoints."""

    async def check(self) -> None:
        """Check that the topic exists, and end transactions that earlier runs left open."""
        wire = await self.link.wire()
        places = await self._places()
        if self.transactions.opens:
            await self._check_time(self.transactions.timeout_ms, wire)
        await self.transactions.recover(wire, self.link.patience, places)
        if self.limited:
            self.link.patience.tell(
                f"{self.name}: with --limit rows are written at least once: there are no "
                "checkpoints to commit with"
            )

    async def _places(self) -> Sequence[Place]:
        """Return the partitions of the topic; none if each row names its topic."""
        if self.recipe.row_topic is not None:
            return []
        topic = self.recipe.topic
        return [(topic, number) for number in range(await self.link.partitions(topic))]

    async def _check_time(self, timeout_ms: int, wire: Wire) -> None:
        """Check that transactions may stay open until their commit, even with a slow checkpoint."""
        most_ms = await self._longest_ms(wire)
        if most_ms is not None and timeout_ms > most_ms:
            raise too_long(timeout_ms, most_ms)
        commits, timeout_s = self.commits, timeout_ms / 1000
        if commits is None or commits.every_s is None:
            return  # Everything is committed at the end.
        every_s = commits.every_s
        if timeout_s <= every_s:
            message = (
                f"transaction_timeout is {timeout_s:g} s, and a checkpoint every {every_s:g} s"
            )
            hint = "a transaction is open from one checkpoint to the next: take them more often"
            raise ConnectorError(message, hint, exit_status=2, final=True)
        needed_s = every_s + commits.timeout_s + commits.restart_s
        if timeout_s < needed_s:
            self.link.patience.tell(
                f"{self.name}: transaction_timeout is {timeout_s:g} s; with a slow checkpoint and "
                f"a restart, a transaction may be open for {needed_s:g} s, and its rows be lost"
            )

    async def _longest_ms(self, wire: Wire) -> int | None:
        """Return the longest timeout that the broker allows, if it reports it."""
        for broker in wire.brokers()[:1]:
            try:
                request = wire.config(BROKER, str(broker), LONGEST)
                allowed = await self.link.patience.watched(request)
            except kafka.KafkaError:
                return None
            return int(allowed) if allowed else None
        return None

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        """Return a writer, which connects at its first row."""
        encoding = Encoding(self.recipe, turn=subtask)
        output = Output(self.link, encoding, self.bench, self.habits)
        if not self.transactions.opens:
            return PlainWriter(output)
        return TransactionalWriter(output, self.transactions, subtask)

    async def commit(self, handle: Handle) -> None:
        """Commit a transaction, waiting for a broker that is away."""
        faults.point("sink.committing")
        found = await end(handle, await self.link.wire(), self.link.patience, commit=True)
        if not found:
            self._miss(lost(handle))
        self.transactions.committed(handle)
        faults.point("sink.committed")

    def _miss(self, message: str) -> None:
        """Handle a lost transaction of a checkpoint: report it or raise ConnectorError."""
        if self.on_lost == "warn":
            self.link.patience.tell(f"{self.name}: {message}")
            return
        hint = (
            "on_lost_transaction: warn continues without them; an earlier savepoint writes them "
            "again; a longer transaction_timeout, or more frequent checkpoints, prevent it"
        )
        raise ConnectorError(message, hint, final=True)

    async def abort(self, handle: Handle) -> None:
        """Abort a transaction, so that no reader waits for it; a missing one counts as aborted."""
        wire = await self.link.wire()
        await end(handle, wire, self.link.patience, commit=False, within_s=ABORT_S)

    async def close(self) -> None:
        await self.link.close()
