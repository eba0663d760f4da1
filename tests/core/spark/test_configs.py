"""Every pipeline that ships gives the same rows on Spark as in a stream, at any parallelism.

What goes to the screen goes to files here, so that values are compared and not what is shown. Where
`tests/cli/test_configs.py` holds streams of one subtask and of three against each other, three do.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.snippets import ROOT
from tests.connectors.kafka.test_demo import order
from tests.support.cli.shipped_pipelines import CHANGES, CONFIGS, ORDERS, STEADY, Row, named
from tests.support.cli.shipped_pipelines import overrides as fewer
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Record, Topics
from tests.support.spark.batches import Output, batch, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENT = "sources.bids.nexmark.events=20K"
TEMPLATES = {
    "templates/files/pipeline.yaml": (),
    "templates/generate/pipeline.yaml": (),
    "templates/nexmark/pipeline.yaml": (EVENT,),
    "templates/python/pipeline.yaml": (EVENT,),
    "templates/windows/pipeline.yaml": (EVENT,),
}
OF_FOLDERS = sorted(
    f"{folder}/{path.name}"
    for folder in ("loops", "match")
    for path in (ROOT / "configs" / folder).glob("*.yaml")
    if path.stem not in ("bulk", "components", "retry")
)
ELSEWHERE = {"loops/bulk.yaml", "loops/components.yaml", "loops/retry.yaml"}
"""tests/core/spark/test_table_rounds.py has smaller tables; the last waits by the wall clock."""
OF_BROKERS = {"kafka.yaml", "templates/kafka/pipeline.yaml"}
"""The other is the first with more said about it."""
IN_TIME = {"late.yaml": ("sources.orders.watermark.delay=4h",)}
"""Settings under which no row is late, since a batch has no late rows."""
CLOSE = {"windows/channels": {"mean"}}
"""Columns with sums of doubles, which depend on the order in which those are added."""
READ = """\
{"order_id": 1, "customer": " ada ", "amount": 1000, "at": "2026-01-01 00:00:00"}
{"order_id": 2, "amount": 1.005, "at": "2026-01-01T00:00:01Z"}
{"customer": "b", "at": "2026-01-01T00:00:01Z"}
no
{"order_id": 3, "amount": 2.5}
{"order_id": 4, "customer": "gr\u00f6\u00dfe", "amount": 1e3, "at": "2026-01-02T00:00:00.5Z"}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of what ships, in which nothing is shown and all is written."""
    copied = tmp_path / "site"
    shutil.copytree(ROOT / "configs", copied / "configs")
    for config in copied.rglob("*.yaml"):
        text = config.read_text("utf-8")
        parts = re.split(r"\b(?:console|stdout): \{\}", text)
        screens = (f"files: {{path: ../build/screen{n}, mode: overwrite}}" for n in count())
        text = "".join(part + next(screens) for part in parts[:-1]) + parts[-1]
        config.write_text(text, "utf-8")
    orders = copied / "configs" / "templates" / "files" / "in"
    orders.mkdir()
    (orders / "a.jsonl").write_text(READ, "utf-8")
    (orders / "b.jsonl").write_text(READ.replace("1", "7"), "utf-8")
    return copied


def overrides(name: str, parallelism: int) -> tuple[str, ...]:
    """Return the settings that override the file's."""
    more = (*TEMPLATES.get(name, ()), *IN_TIME.get(name, ()))
    return (*fewer(name, "20K", parallelism), *more)


@pytest.mark.parametrize("name", [*CONFIGS, *OF_FOLDERS, *TEMPLATES])
def test_a_config_gives_the_same_rows_on_spark(spark: SparkSession, site: Path, name: str) -> None:
    config = site / "configs" / name
    batch(spark, config, *overrides(name, 1))
    found = Output.taken(site, CHANGES)
    assert sum(table.total() for table in found.rows.values()) > (0 if name in OF_FOLDERS else 2)
    for parallelism in (3,) if name in STEADY else (1, 3):
        stream(config, *overrides(name, parallelism))
        assert_same(found, Output.taken(site, CHANGES))


def assert_same(found: Output, streamed: Output) -> None:
    assert found.rows.keys() == streamed.rows.keys()
    for folder, rows in streamed.rows.items():
        if folder in CLOSE:
            assert_close(found.rows[folder], rows, CLOSE[folder])
        else:
            assert found.rows[folder] == rows, folder
    assert found.lines.keys() == streamed.lines.keys()
    for folder, lines in streamed.lines.items():
        assert folder in CLOSE or found.lines[folder] == lines, folder


def assert_close(found: Counter[Row], wanted: Counter[Row], columns: set[str]) -> None:
    """Whether rows are the same, but for the last digits of some columns."""

    def parted(row: Row) -> tuple[str, list[float]]:
        values = named(row)
        numbers = [float(str(values.pop(column))) for column in sorted(columns)]
        return str(values), numbers

    pairs = zip(*(sorted(map(parted, rows.elements())) for rows in (found, wanted)), strict=True)
    for (one, ones), (other, others) in pairs:
        assert one == other
        assert all(map(lambda a, b: math.isclose(a, b, rel_tol=1e-9), ones, others)), one


def test_the_config_for_kafka_gives_the_same_rows_on_spark(
    spark: SparkSession,
    site: Path,
    broker: Broker,
    topics: Topics,
    fresh: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, orders = site / "configs" / "kafka.yaml", topics.create(fresh("orders"), 4)
    values = (json.dumps(order(number)).encode() for number in range(3000))
    topics.write(orders, [Record(value, partition=n % 4) for n, value in enumerate(values)])
    monkeypatch.setenv("BROKERS", broker.address)
    runs = []
    for run in (stream, partial(batch, spark)):
        revenue = topics.create(fresh("revenue"), 2)
        kafka = (f"sources.orders.kafka.topic={orders}", f"sinks.revenue.kafka.topic={revenue}")
        run(config, *kafka, "sources.orders.kafka.stop=latest")
        written = sorted(value or b"" for value in topics.values(revenue))
        runs.append((written, Output.taken(site, CHANGES)))
    assert len(runs[0][0]) == 45
    assert runs[0] == runs[1]


def test_no_row_is_late_in_a_batch(spark: SparkSession, site: Path) -> None:
    batch(spark, site / "configs" / "late.yaml")
    found = Output.taken(site, CHANGES).rows
    assert sum(int(str(named(row)["orders"])) for row in found["late/days"]) == ORDERS
    assert "late/rest" not in found


def test_every_config_takes_part() -> None:
    root = ROOT / "configs"
    names = {path.relative_to(root).as_posix() for path in root.rglob("*.yaml")}
    of_others = ("nexmark/", "dashboards/")  # of test_nexmark.py and test_dashboards.py
    ours = {name for name in names if not name.startswith(of_others)}
    assert ours == {*CONFIGS, *OF_FOLDERS, *ELSEWHERE, *TEMPLATES, *OF_BROKERS}
