"""Tables of a database, as Debezium writes their changes, joined and counted in another database.

The processes are killed. What a reader of the output sees is at any time the query over the first
changes of both topics: all of some checkpoint, and nothing else.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.cli.processes import start
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Record, Topics
from tests.support.tables.databases import Database, fresh_schema
from tests.support.tables.postgres import running

Row = dict[str, Any]
Totals = frozenset[tuple[str, int, int]]

PIPELINE = """\
name: cdc
settings: {checkpoint: {every: 100ms}}
sources:
  customers:
    kafka: {brokers: "BROKER", topic: CUSTOMERS}
    format: debezium_json
    schema: {id: bigint, city: string}
    table: {key: id}
  orders:
    kafka: {brokers: "BROKER", topic: ORDERS}
    format: debezium_json
    schema: {id: bigint, customer: bigint, amount: bigint}
    table: {key: id}
steps:
  placed:
    join: {left: orders, right: customers, on: orders.customer = customers.id}
    select: {order: orders.id, city: city, amount: amount}
  cities: {from: placed, key: city, aggregate: {orders: count(*), total: sum(amount)}}
sinks:
  totals: {from: cities, parallelism: 1, sql: {url: "URL", table: totals, create: true}}
"""
LOTS, LOT = 8, 10
CITIES = ("Wien", "Roma", "Bonn", "Oslo")


def change(chance: random.Random, table: dict[int, Row], draw: Callable[[int], Row]) -> Record:
    """Change a table, and return Debezium's message about it."""
    id = chance.randrange(15)
    before = table.get(id)
    after = None if before and chance.random() < 0.2 else draw(id)
    if after is None:
        del table[id]
    else:
        table[id] = after
    op = "d" if after is None else "u" if before else "c"
    message = {"before": before, "after": after, "op": op, "source": {}, "ts_ms": 0}
    return Record(json.dumps(message).encode(), json.dumps({"id": id}).encode())


def draw_changes(
    chance: random.Random, count: int, draw: Callable[[int], Row]
) -> tuple[list[Record], list[dict[int, Row]]]:
    """Return changes of a table, and the table before the first and after each of them."""
    table: dict[int, Row] = {}
    changes, tables = list[Record](), [dict(table)]
    for _ in range(count):
        changes.append(change(chance, table, draw))
        tables.append(dict(table))
    return changes, tables


def query(customers: dict[int, Row], orders: dict[int, Row]) -> Totals:
    """Compute the totals of the cities."""
    counts, sums = Counter[str](), Counter[str]()
    for order in orders.values():
        if customer := customers.get(order["customer"]):
            counts[customer["city"]] += 1
            sums[customer["city"]] += order["amount"]
    return frozenset((city, counts[city], sums[city]) for city in counts)


def read(database: Database) -> Totals:
    """Read the totals; without the table there are none."""
    if "totals" not in database.tables():
        return frozenset()
    return frozenset(
        (city, orders, int(total))
        for city, orders, total in database.rows("select city, orders, total from totals")
    )


def lots(changes: Sequence[Record]) -> Iterator[Sequence[Record]]:
    for first in range(0, len(changes), LOT):
        yield changes[first : first + LOT]


def test_totals_are_those_of_a_checkpoint_although_processes_are_killed(
    tmp_path: Path, broker: Broker, topics: Topics, fresh: Callable[..., str]
) -> None:
    chance = random.Random(23)
    customers, of_customers = draw_changes(
        chance, LOTS * LOT, lambda id: {"id": id, "city": chance.choice(CITIES)}
    )
    orders, of_orders = draw_changes(
        chance,
        LOTS * LOT,
        lambda id: {"id": id, "customer": chance.randrange(18), "amount": chance.randrange(99)},
    )
    possible = {query(one, other) for one in of_customers for other in of_orders}
    topic_names = topics.create(fresh("customers")), topics.create(fresh("orders"))
    with running() as server, fresh_schema(server) as database:
        names = ("BROKER", "CUSTOMERS", "ORDERS", "URL")
        values = (broker.address, *topic_names, database.url)
        text = PIPELINE
        for name, value in zip(names, values, strict=True):
            text = text.replace(name, value)
        (tmp_path / "p.yaml").write_text(text)
        arguments = ("--quiet", "p.yaml", "--parallelism", "2")
        process = start(tmp_path, *arguments)
        seen = set[Totals]()
        for at, (one, other) in enumerate(zip(lots(customers), lots(orders), strict=True)):
            before = read(database)
            topics.write(topic_names[0], one)
            topics.write(topic_names[1], other)
            while (found := read(database)) == before:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            seen.add(found)
            if at % 4 == 3:
                time.sleep(chance.random() / 5)
                process.kill()
                process.communicate()
                seen.add(read(database))
                process = start(tmp_path, *arguments)
        while (found := read(database)) != query(of_customers[-1], of_orders[-1]):
            seen.add(found)
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.terminate()
        process.communicate()
        assert not seen - possible
        assert len(seen) > LOTS // 2
        assert read(database) == query(of_customers[-1], of_orders[-1])
