"""Settings of a Spark session, and its master."""

from __future__ import annotations

import socket

import pytest

from headrace.core.spark.installation import SparkUnavailable
from headrace.core.spark.settings import (
    SEMANTIC_SETTINGS,
    build_settings,
    check_reachable,
    parse_conf,
)


def test_here_all_cores_work_on_what_is_grouped_and_nothing_is_served() -> None:
    here = build_settings("p", "local[3]", {})
    assert here["spark.sql.shuffle.partitions"] == "3"
    assert here["spark.ui.enabled"] == "false"
    assert here["spark.driver.host"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://one:7077", "yarn", "k8s://https://api:6443"])
def test_nothing_local_is_forced_on_a_cluster(master: str) -> None:
    there = build_settings("p", master, {})
    assert not {key for key in there if key.startswith("spark.driver.")}
    assert "spark.ui.enabled" not in there and "spark.sql.shuffle.partitions" not in there
    assert there.items() >= SEMANTIC_SETTINGS.items()


def test_a_setting_of_the_command_line_wins() -> None:
    wanted = parse_conf(["spark.driver.memory=7g", "spark.x= a=b "])
    found = build_settings("p", "local[*]", wanted)
    assert (found["spark.driver.memory"], found["spark.x"]) == ("7g", "a=b")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.session.timeZone", "Europe/Berlin"),
        ("spark.sql.caseSensitive", "false"),
        ("spark.sql.variable.substitute", "true"),
        ("spark.sql.mapKeyDedupPolicy", "LAST_WIN"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY"),
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
    ],
)
def test_what_rows_mean_cannot_be_set(key: str, value: str) -> None:
    with pytest.raises(SparkUnavailable, match="it would change rows"):
        build_settings("p", "local[*]", {key: value})


def test_what_rows_mean_anyway_may_be_said() -> None:
    assert build_settings("p", "local", {"spark.sql.ansi.enabled": "False"})


@pytest.mark.parametrize("argument", ["", "x", "spark.x", "=1", "sql.ansi=1"])
def test_what_is_no_setting_of_spark_is_refused(argument: str) -> None:
    with pytest.raises(SparkUnavailable, match="wanted a Spark setting"):
        parse_conf([argument])


@pytest.mark.parametrize("key", ["spark.master", "spark.remote"])
def test_the_master_is_named_in_one_place(key: str) -> None:
    with pytest.raises(SparkUnavailable, match="use --master to say where Spark is"):
        build_settings("p", "local", {key: "local"})


def test_the_driver_is_where_headrace_is() -> None:
    with pytest.raises(SparkUnavailable, match="the driver is always headrace's own process"):
        build_settings("p", "yarn", {"spark.submit.deployMode": "cluster"})


@pytest.mark.parametrize("master", ["", "foo", "local[0]", "local[x]", "sc://h", "spark://"])
def test_a_master_that_is_none_is_refused(master: str) -> None:
    with pytest.raises(SparkUnavailable, match="wanted local"):
        build_settings("p", master, {})


def test_an_unreachable_master_is_reported_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(SparkUnavailable, match=f"127.0.0.1:{port}: connection refused") as refused:
        check_reachable(f"spark://127.0.0.1:{port}")
    assert refused.value.exit_status == 1
