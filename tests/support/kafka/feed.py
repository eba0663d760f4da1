"""The input of a job that is killed: numbered records in a topic and lines in files, meanwhile.

Records come in batches, each plain, in a transaction, or in one that is aborted on purpose, whose
rows no reader may ever see. Numbers rise in each partition, and so do event times.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from confluent_kafka import KafkaException, Producer

from tests.support.kafka.topics import LONGEST_S, QUIET, Record, send

T = TypeVar("T")

KEYS = 7
PARTITIONS = 3
BAD = 50
"""One of this number of records is unreadable."""
BEGIN = datetime(2026, 1, 1)
STEP_MS = 10
GHOST = 1_000_000
"""Numbers of rows that were aborted are from here on."""


def record(id: int) -> Record:
    """The record of that number."""
    key = id % KEYS
    at = (BEGIN + timedelta(milliseconds=id * STEP_MS)).isoformat()
    value = json.dumps({"id": id, "k": key, "at": at})
    text = f"bad {id}" if is_bad(id) else value
    return Record(text.encode(), b"%d" % key, key % PARTITIONS)


def is_bad(id: int) -> bool:
    """Whether a record is none that can be read."""
    return id % BAD == 13


class Feed:
    """Writes until it is closed: then `records` are in the topic, and `lines` in the files."""

    def __init__(self, address: str, topic: str, folder: Path, seed: int) -> None:
        self._settings = {"bootstrap.servers": address, **QUIET}
        self._topic = topic
        self._folder = folder
        self._chance = Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._plain = Producer(self._settings | {"enable.idempotence": True})
        self._transactional: Producer | None = None
        self._failed: BaseException | None = None
        self.records = 0
        self.ghosts = 0
        self.lines = 0

    def start(self) -> None:
        """Begin."""
        self._folder.mkdir()
        self._thread.start()

    def close(self) -> None:
        """Finish what was begun."""
        self._over.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            while not self._over.wait(0.05):
                self._batch(self._chance.choice([1, 10, 30, 60]))
                if self._chance.random() < 0.2:
                    self._file(self._chance.choice([1, 20, 100]))
        except BaseException as error:
            self._failed = error

    def _batch(self, count: int) -> None:
        rows = [record(id) for id in range(self.records, self.records + count)]
        match self._chance.choice(["plain", "committed", "aborted"]):
            case "plain":
                send(self._plain, self._topic, rows)
            case "committed":
                self._transaction(rows, commit=True)
            case _:
                ghosts = range(GHOST + self.ghosts, GHOST + self.ghosts + count)
                self._transaction([record(id) for id in ghosts], commit=False)
                self.ghosts += count
                return
        self.records += count

    def _transaction(self, rows: list[Record], *, commit: bool) -> None:
        """Write in a transaction, waiting for a broker that is away."""
        while True:
            producer = self._transactional or self._opened()
            try:
                insist(producer.begin_transaction)
                send(producer, self._topic, rows)
                insist(producer.commit_transaction if commit else producer.abort_transaction)
                return
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                with suppress(KafkaException):
                    insist(producer.abort_transaction)
                self._transactional = None

    def _opened(self) -> Producer:
        named = {"transactional.id": f"feed-{uuid.uuid4().hex}"}
        producer = Producer(self._settings | named)
        insist(partial(producer.init_transactions, LONGEST_S))
        self._transactional = producer
        return producer

    def _file(self, count: int) -> None:
        """One more file, whole when it is seen."""
        rows = range(self.lines, self.lines + count)
        hidden = self._folder / ".next"
        hidden.write_text("".join(json.dumps({"id": id, "k": id % KEYS}) + "\n" for id in rows))
        hidden.rename(self._folder / f"{self.lines:08}.jsonl")
        self.lines += count


def insist(ask: Callable[[], T]) -> T:
    """The answer, when there is one at last."""
    while True:
        try:
            return ask()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
