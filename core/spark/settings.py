"""Spark's settings for a batch: ours, those of the command line, and those that nobody may change.

What says what rows mean is the same wherever a pipeline runs. What only says how fast they come is
a default, and where the master is not on this machine we have no opinion on most of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.core.spark.absent import NoSpark

LOCAL = "local[*]"
LOG_LEVEL = "spark.log.level"
PYTHON = "spark.pyspark.python"

_RULES = "org.apache.spark.sql.catalyst.optimizer"
MEANING = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    # By these a float keeps digits that it has not, lower(upper(x)) is lower(x), and sums are put
    # in another order without asking which of them are tried; all of it across steps, too.
    "spark.sql.optimizer.excludedRules": (
        f"{_RULES}.SimplifyCasts,{_RULES}.SimplifyCaseConversionExpressions,"
        f"{_RULES}.ReorderAssociativeOperator"
    ),
    # By these a file that is damaged or gone is a few rows less, which nobody is told.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
    # By these times of old files are others, and columns are found by numbers and not by names.
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
"""By these the same text means the same rows on both executors."""
LEGACY = "spark.sql.legacy."
"""What begins so brings back what an expression meant in an older Spark."""

SPEED = {
    # Batches of this size were 1.4 times as fast as Spark's own.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # As many tasks run beside each other as there are cores.
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.ui.showConsoleProgress": "false",
}
HERE = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A module of the working directory must not stand in for one of Python's.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
"""Of a master within this process."""

_LOCAL = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?")
_ON_THIS_MACHINE = re.compile(r"spark://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
_KNOWN = re.compile(r"spark://.+|yarn|k8s://.+")
_OWN_OPTION = {"spark.master": "--master", "spark.remote": "--master"}


def settings(name: str, master: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session. Raises NoSpark."""
    check_master(master)
    check(wanted)
    ours = {"spark.app.name": name, "spark.master": master, **MEANING, **SPEED}
    if is_local(master):
        cores = str(local_cores(master))
        ours |= HERE | {"spark.driver.memory": _memory(), "spark.sql.shuffle.partitions": cores}
    return {**ours, **wanted}


def is_local(master: str) -> bool:
    """Whether executors are threads of a process that we start.

    >>> is_local("local[2]"), is_local("local-cluster[2,1,512]"), is_local("yarn")
    (True, False, False)
    """
    return _LOCAL.fullmatch(master) is not None


def on_this_machine(master: str) -> bool:
    """Whether executors find what is on this machine's disk, Python as well."""
    return is_local(master) or _ON_THIS_MACHINE.fullmatch(master) is not None


def local_cores(master: str) -> int:
    """How many tasks run beside each other.

    >>> local_cores("local[3]"), local_cores("local")
    (3, 1)
    """
    found = _LOCAL.fullmatch(master)
    count = found[2] if found else None
    return len(os.sched_getaffinity(0)) if count == "*" else int(count or 1)


def parsed(arguments: Sequence[str]) -> dict[str, str]:
    """What `--conf` says. Raises NoSpark.

    >>> parsed(["spark.driver.memory=4g"])
    {'spark.driver.memory': '4g'}
    """
    found = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        key = key.strip()
        if not equals or not key.startswith("spark."):
            raise NoSpark(f'--conf: wanted a setting of Spark as spark.x=value, got "{argument}"')
        found[key] = value.strip()
    return found


def check(wanted: Mapping[str, str]) -> None:
    """Whether rows mean the same with these. Raises NoSpark."""
    for key, value in wanted.items():
        if option := _OWN_OPTION.get(key):
            raise NoSpark(f"--conf {key}: {option} says where Spark is")
        if key == "spark.submit.deployMode" and value != "client":
            raise NoSpark(f"--conf {key}: the driver is headrace itself, where it was started")
        ours = MEANING.get(key)
        changes = key.startswith(LEGACY) or (ours is not None and value.lower() != ours.lower())
        if changes:
            always = f"; it is {ours}" if ours else ""
            why = "it changes what rows mean, which is the same on Spark and without it"
            raise NoSpark(f"--conf {key}={value}: {why}{always}")


def check_master(master: str) -> None:
    """Whether it is a master that a batch can run on. Raises NoSpark."""
    if is_local(master) or _KNOWN.fullmatch(master):
        return
    wanted = "local[*], local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT"
    raise NoSpark(f'--master: wanted {wanted}, got "{master}"')


def _memory() -> str:
    """For the process that is driver and executors in one: a third of what there is.

    The workers in Python need as much again, each its part. Spark's default is 1 GB on any machine.
    """
    bytes_ = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (said := limit.read_text().strip()).isdigit():
        bytes_ = min(bytes_, int(said))
    return f"{min(max(bytes_ // 3 >> 20, 1024), 16 * 1024)}m"
