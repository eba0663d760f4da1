"""The tables of the shop of configs/dashboards: random logs of their changes.

Customers move, orders go from state to state, lines are corrected; rows are deleted, and not always
those that refer to them. A few changes are in the log before an older one of their key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, TypeAlias

from headrace.core.types.change_columns import CHANGE

Record: TypeAlias = "dict[str, Any]"
SEQUENCE = "seq"
KEYS = {
    "customers": ("id",),
    "orders": ("id",),
    "items": ("order_id", "line"),
    "returns": ("id",),
    "products": ("id",),
    "deliveries": ("id",),
    "discontinued": ("product",),
}
BEGIN = datetime(2026, 1, 1)
CITIES = ("Wien", "Graz", "Roma", "Linz", None)
NEXT = {
    "new": ("paid", "paid", "paid", "cancelled"),
    "paid": ("shipped", "shipped", "shipped", "disputed"),
    "shipped": ("delivered",),
}
PRODUCTS = ("tea", "rice", "soap", "lamp", "wool", "salt")
NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus")
CUSTOMERS = 12
DAYS, DAYS_APART = 9, 16
"""Orders are placed on this number of days, in several months."""
LATE_SHARE = 0.08


class ShopLogs:
    """Draws changes of the tables; `records` has those of each table in the order of its log."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.records: dict[str, list[Record]] = {name: [] for name in KEYS}
        self._rows: dict[str, dict[tuple[Any, ...], Record]] = {name: {} for name in KEYS}
        self._count = 0

    def draw(self, changes: int) -> None:
        """Draw at least as many changes of all tables."""
        for product in PRODUCTS[:-1]:
            self._change_product(product)
        some: Sequence[Callable[[], None]] = (
            *(self._place_order,) * 4,
            *(self._advance_order,) * 5,
            *(self._correct_item,) * 3,
            *(self._move_customer, self._move_customer, self._return_item, self._deliver),
            *(self._discontinue, lambda: self._change_product(self.random.choice(PRODUCTS))),
            self._delete_row,
        )
        end = self._count + changes
        while self._count < end:
            self.random.choice(some)()

    def _write(self, table: str, **values: Any) -> None:
        """Add or replace a row."""
        row = {**values, SEQUENCE: self._number()}
        self._rows[table][tuple(row[name] for name in KEYS[table])] = row
        self._append(table, row)

    def _delete(self, table: str, key: tuple[Any, ...]) -> None:
        del self._rows[table][key]
        named = dict(zip(KEYS[table], key, strict=True))
        self._append(table, {**named, CHANGE: "delete", SEQUENCE: self._number()})

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _append(self, table: str, record: Record) -> None:
        records = self.records[table]
        records.append(record)
        if len(records) > 1 and self.random.random() < LATE_SHARE:
            records[-2:] = reversed(records[-2:])

    def _pick(self, table: str) -> Record | None:
        """Return one of the rows of a table that are there."""
        rows = [*self._rows[table].values()]
        return {**self.random.choice(rows)} if rows else None

    def _place_order(self) -> None:
        number, random = 1 + len(self.records["orders"]), self.random
        customer = random.choice((*range(1, CUSTOMERS + 1), None))
        day = timedelta(days=random.randrange(DAYS) * DAYS_APART)
        at = (BEGIN + day + timedelta(minutes=random.randrange(24 * 60))).isoformat() + "Z"
        self._write("orders", id=number, customer=customer, state="new", placed_at=at)
        for line in range(1, random.choice((1, 2, 2, 3)) + 1):
            self._write_item(number, line)

    def _write_item(self, order: int, line: int) -> None:
        random = self.random
        price, quantity = random.randrange(100, 9000), random.randrange(1, 6)
        product = random.choice(PRODUCTS)
        values = {"product": product, "quantity": quantity, "price": float(Decimal(price) / 100)}
        self._write("items", order_id=order, line=line, **values)

    def _advance_order(self) -> None:
        order = self._pick("orders")
        if order is not None and order["state"] in NEXT:
            self._write("orders", **{**order, "state": self.random.choice(NEXT[order["state"]])})

    def _correct_item(self) -> None:
        item = self._pick("items")
        if item is not None:
            self._write_item(item["order_id"], item["line"])

    def _move_customer(self) -> None:
        id = self.random.randrange(1, CUSTOMERS + 1)
        name, city = NAMES[id % len(NAMES)], self.random.choice(CITIES)
        self._write("customers", id=id, name=name, city=city)

    def _return_item(self) -> None:
        item, id = self._pick("items"), 1 + self.random.randrange(1 + len(self.records["items"]))
        if item is not None:
            quantity = self.random.randrange(1, item["quantity"] + 1)
            place = {"order_id": item["order_id"], "line": item["line"]}
            self._write("returns", id=id, **place, quantity=quantity)

    def _deliver(self) -> None:
        number = self.random.randrange(1, 2 + len(self.records["deliveries"]))
        at = (BEGIN + timedelta(minutes=self.random.randrange(200_000))).isoformat() + "Z"
        quantity = self.random.randrange(1, 40)
        product = self.random.choice(PRODUCTS)
        self._write("deliveries", id=number, product=product, quantity=quantity, arrived_at=at)

    def _change_product(self, id: str) -> None:
        level, category = self.random.randrange(0, 120), self.random.choice(("food", "home", None))
        self._write("products", id=id, name=id.title(), category=category, reorder_level=level)

    def _discontinue(self) -> None:
        since = (BEGIN + timedelta(days=self.random.randrange(100))).date().isoformat()
        self._write("discontinued", product=self.random.choice(PRODUCTS), since=since)

    def _delete_row(self) -> None:
        table = self.random.choice((*KEYS, "discontinued", "discontinued"))
        row = self._pick(table)
        if row is not None:
            self._delete(table, tuple(row[name] for name in KEYS[table]))


def find_rows(table: str, records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of a table after changes: the newest of each key, unless it is a deletion."""
    newest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for record in sorted(records, key=lambda each: int(each[SEQUENCE])):
        newest[tuple(record[name] for name in KEYS[table])] = record
    return [record for record in newest.values() if CHANGE not in record]


def write_lines(records: Iterable[Mapping[str, Any]]) -> str:
    """Return records as lines of JSON."""
    return "".join(json.dumps(record) + "\n" for record in records)
