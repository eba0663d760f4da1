"""The work of W1 to W4 as programs written for Spark by hand.

`python -m benchmarks.batch_references w1|w2|w3|w4 json|parquet INPUT OUTPUT` prints the seconds
between the start and the end of the session.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = "auction bigint, bidder bigint, price bigint, channel string, url string, ts bigint"
WINDOWS = {"w3": ("auction", "10 seconds"), "w4": ("bidder", "60 seconds")}


def session() -> SparkSession:
    """Start a session with two cores and without features that take time."""
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "4g").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


def made(work: str, bids: DataFrame) -> DataFrame:
    """Apply a work to the bids."""
    from pyspark.sql import functions as f

    if work == "w1":
        return bids.where("url like '%item7%'")
    if work == "w2":
        return bids.selectExpr("auction", "bidder", "price * 0.908D as price_eur", "ts")
    key, size = WINDOWS[work]
    at = f.col("ts") if dict(bids.dtypes)["ts"] == "timestamp" else f.timestamp_millis("ts")
    grouped = bids.groupBy(key, f.window(at, size).alias("w"))
    sums = grouped.agg(
        f.count("*").alias("n"), f.sum("price").alias("total"), f.max("price").alias("maxp")
    )
    bounds = f.col("w.start").alias("window_start"), f.col("w.end").alias("window_end")
    return sums.select(key, *bounds, "n", "total", "maxp")


def computed(work: str, format: str, source: str, target: str) -> None:
    """Do the work, and print how long it took."""
    spark = session()
    start = time.perf_counter()
    read = spark.read.schema(FIELDS) if format == "json" else spark.read
    made(work, read.format(format).load(source)).write.format(format).save(target)
    print(time.perf_counter() - start)
    spark.stop()
    _wait()


def _wait() -> None:
    """Wait until Java has ended, so that its time is counted."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    computed(*sys.argv[1:])
