"""A class that reads the real clock is reported, because time is virtual in a test."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli.command_line import Headrace
from tests.support.cli.tested_pipelines import run_test

HEAD = """\
name: t
sources: {orders: {kafka: {brokers: "localhost:9092", topic: o, group: t}, schema: {id: int}}}
steps:
  seen:
    from: orders
    key: id
    process: {python: code.py:Seen, order: arrival, returns: {at: bigint}}
sinks: {a: {from: seen, console: {}}}
"""
CODE = """\
import time
from datetime import datetime

from headrace import Process

class Seen(Process):
    def on_row(self, row, state, out):
        "é"; out(at=%s)

class Other:
    def now(self):
        return time.time()
"""


def test_a_class_that_reads_the_real_clock_is_reported(headrace: Headrace) -> None:
    Path("code.py").write_text(CODE % "int(time.time())", "utf-8")
    ran = run_test(headrace, "given: []\n", head=HEAD)
    assert ran.status == 0
    message = 'class "Seen": time.time() is the real time, and not that of a test'
    assert ran.out.splitlines()[0] == f"code.py:8:25: warning: {message}"
    assert "^^^^^^^^^^^ use self.now" in ran.out
    validated = headrace("validate", "shop.yaml")
    assert ran.out in validated.out
    Path("code.py").write_text(CODE % "int(datetime.now().timestamp())", "utf-8")
    assert "datetime.now() is the real time" in run_test(headrace, "given: []\n", head=HEAD).out


def test_the_time_of_a_test_is_no_mistake(headrace: Headrace) -> None:
    Path("code.py").write_text(CODE % "int(self.now.timestamp())", "utf-8")
    test = "given: [advance: 5s, orders: [{id: 1}]]\nexpect: {seen: [{at: %s}]}\n"
    ran = run_test(headrace, test % 1769817605, head=HEAD)
    assert (ran.status, ran.out) == (0, "")


def test_a_pipeline_without_tests_may_read_the_real_clock(headrace: Headrace) -> None:
    Path("code.py").write_text(CODE % "int(time.time())", "utf-8")
    Path("shop.yaml").write_text(HEAD, "utf-8")
    assert "real time" not in headrace("validate", "shop.yaml").out
