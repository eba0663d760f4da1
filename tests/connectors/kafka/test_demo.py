"""The shipped Kafka pipeline and its demo, which leaves no files or processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.kafka.broker import Broker, serves
from tests.support.kafka.demo import CONFIG
from tests.support.kafka.topics import Record, Topics

Fresh = Callable[..., str]


def order(number: int) -> dict[str, object]:
    """One every 10 ms, of three cities."""
    at = f"2026-01-31T08:{number // 6000:02}:{number // 100 % 60:02}.{number % 100:02}Z"
    city = ("Wien", "Roma", "København")[number % 7 % 3]
    return {"order_id": number, "city": city, "amount": number % 500 / 4, "at": at}


def test_orders_are_counted_exactly_once_by_city_and_window(
    headrace: Headrace,
    broker: Broker,
    topics: Topics,
    fresh: Fresh,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orders, revenue = topics.create(fresh("orders"), 4), topics.create(fresh("revenue"), 2)
    count = 3000
    values = (json.dumps(order(number)).encode() for number in range(count))
    topics.write(orders, [Record(value, partition=n % 4) for n, value in enumerate(values)])
    monkeypatch.setenv("BROKERS", broker.address)
    kafka = (f"sources.orders.kafka.topic={orders}", f"sinks.revenue.kafka.topic={revenue}")
    settings = (*kafka, "sources.orders.kafka.stop=latest")
    ran = headrace("run", str(CONFIG), *(w for value in settings for w in ("--set", value)))
    assert ran.status == 0, ran.err
    wanted: defaultdict[str, Decimal] = defaultdict(Decimal)
    for number in range(count):
        wanted[str(order(number)["city"])] += Decimal(number % 500) / 4
    rows = [json.loads(value or b"", parse_float=Decimal) for value in topics.values(revenue)]
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        found[row["city"]] += row["revenue"]
    assert found == wanted
    assert sum(row["orders"] for row in rows) == count
    assert len(rows) == len({(row["city"], row["window_start"]) for row in rows}) == 3 * 15


@pytest.mark.slow
def test_who_interrupts_the_demo_leaves_nothing_running_and_nothing_on_disk(
    tmp_path: Path,
) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "tests.support.kafka.demo"],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal has it: all of it hears of Ctrl-C
    )
    with demo:
        assert demo.stdout is not None
        said = iter(demo.stdout)
        port = next(
            int(found[1]) for line in said if (found := re.search(r"serves .*:(\d+)", line))
        )
        assert next(line for line in said if line.startswith("city"))
        os.killpg(demo.pid, signal.SIGINT)
        rest = list(said)
    assert demo.returncode == 128 + signal.SIGINT, rest
    assert not serves(port)
    assert not list(tmp_path.iterdir())
