"""Spark's settings for a batch: fixed ones, defaults, and those of the command line.

Settings that affect the result are fixed, and the same wherever a pipeline runs. Settings that
affect only speed are defaults; for a master on another machine most of them are left alone. Such a
master is checked for an answer first: Spark itself retries for a minute and then reports another
error.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headrace.core.spark.installation import SparkUnavailable

LOCAL_MASTER = "local[*]"


LOG_LEVEL = "spark.log.level"


PYTHON_SETTING = "spark.pyspark.python"


_RULES_PACKAGE = "org.apache.spark.sql.catalyst.optimizer"


SEMANTIC_SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    # These rules keep digits that a float does not have, reduce lower(upper(x)) to lower(x), and
    # reorder sums although try_ functions are among them; all of it across steps, too.
    "spark.sql.optimizer.excludedRules": (
        f"{_RULES_PACKAGE}.SimplifyCasts,{_RULES_PACKAGE}.SimplifyCaseConversionExpressions,"
        f"{_RULES_PACKAGE}.ReorderAssociativeOperator"
    ),
    # These would silently drop the rows of a damaged or missing file.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
    # These would change timestamps of old files, and find columns by number, not by name.
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
"""Settings under which a pipeline gives the same rows with and without Spark."""


LEGACY_PREFIX = "spark.sql.legacy."
"""The prefix of settings that restore the behaviour of an older Spark."""


DEFAULT_SETTINGS = {
    # Batches of this size were 1.4 times as fast as Spark's own.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # As many tasks run in parallel as there are cores.
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.ui.showConsoleProgress": "false",
}


LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A module of the working directory must not shadow one of Python's.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
"""Settings of a master within this process."""


_LOCAL_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?")


_SAME_MACHINE_MASTER = re.compile(r"spark://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")


_CLUSTER_MASTER = re.compile(r"spark://.+|yarn|k8s://.+")


_OWN_OPTION = {"spark.master": "--master", "spark.remote": "--master"}


def build_settings(name: str, master: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return all settings of a session. Raises SparkUnavailable."""
    check_master(master)
    check_conf(wanted)
    ours = {"spark.app.name": name, "spark.master": master, **SEMANTIC_SETTINGS, **DEFAULT_SETTINGS}
    if is_local(master):
        cores = str(count_local_cores(master))
        ours |= LOCAL_SETTINGS | {
            "spark.driver.memory": _driver_memory(),
            "spark.sql.shuffle.partitions": cores,
        }
    return {**ours, **wanted}


def is_local(master: str) -> bool:
    """Whether executors are threads of a process that headrace starts.

    >>> is_local("local[2]"), is_local("local-cluster[2,1,512]"), is_local("yarn")
    (True, False, False)
    """
    return _LOCAL_MASTER.fullmatch(master) is not None


def is_on_this_machine(master: str) -> bool:
    """Whether executors can use this machine's disk and Python."""
    return is_local(master) or _SAME_MACHINE_MASTER.fullmatch(master) is not None


def count_local_cores(master: str) -> int:
    """Return how many tasks run in parallel.

    >>> count_local_cores("local[3]"), count_local_cores("local")
    (3, 1)
    """
    found = _LOCAL_MASTER.fullmatch(master)
    count = found[2] if found else None
    return len(os.sched_getaffinity(0)) if count == "*" else int(count or 1)


def parse_conf(arguments: Sequence[str]) -> dict[str, str]:
    """Parse the arguments of `--conf`. Raises SparkUnavailable.

    >>> parse_conf(["spark.driver.memory=4g"])
    {'spark.driver.memory': '4g'}
    """
    properties = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        key = key.strip()
        if not equals or not key.startswith("spark."):
            raise SparkUnavailable(
                f'--conf: wanted a Spark setting as spark.x=value, got "{argument}"'
            )
        properties[key] = value.strip()
    return properties


def check_conf(wanted: Mapping[str, str]) -> None:
    """Check that the settings do not change the result. Raises SparkUnavailable."""
    for key, value in wanted.items():
        if option := _OWN_OPTION.get(key):
            raise SparkUnavailable(f"--conf {key}: use {option} to say where Spark is")
        if key == "spark.submit.deployMode" and value != "client":
            raise SparkUnavailable(f"--conf {key}: the driver is always headrace's own process")
        ours = SEMANTIC_SETTINGS.get(key)
        changes = key.startswith(LEGACY_PREFIX) or (
            ours is not None and value.lower() != ours.lower()
        )
        if changes:
            always = f"; it is always {ours}" if ours else ""
            why = "it would change rows, which are the same with and without Spark"
            raise SparkUnavailable(f"--conf {key}={value}: {why}{always}")


def check_master(master: str) -> None:
    """Check that a batch run can use this kind of master. Raises SparkUnavailable."""
    if is_local(master) or _CLUSTER_MASTER.fullmatch(master):
        return
    wanted = "local[*], local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT"
    raise SparkUnavailable(f'--master: wanted {wanted}, got "{master}"')


def _driver_memory() -> str:
    """Return the memory of a process that is driver and executors in one: a third of the machine's.

    The Python workers together need about as much again. Spark's default is 1 GB on any machine.
    """
    bytes_ = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        bytes_ = min(bytes_, int(text))
    return f"{min(max(bytes_ // 3 >> 20, 1024), 16 * 1024)}m"


CONNECT_TIMEOUT_S = 5.0


_ADDRESS = re.compile(r"(?:https?://)?(?P<host>\[[^\]]+\]|[^:/,]+)(?::(?P<port>\d+))?")


_DEFAULT_PORTS = {"spark": 7077, "k8s": 443}


def check_reachable(master: str) -> None:
    """Check that the master accepts connections, if it has an address. Raises SparkUnavailable."""
    refused = ""
    for host, port in master_addresses(master):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            why = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error))
            refused = refused or f"{host}:{port}: {why.lower()}"
    if refused:
        hint = "is it running, and may this machine reach it?"
        raise SparkUnavailable(
            f"--master {master} cannot be reached: {refused}", hint, exit_status=1
        )


def master_addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield the addresses of a master; one that answers is enough.

    >>> list(master_addresses("spark://one:7077,two:7078")), list(master_addresses("k8s://https://api:6443"))
    ([('one', 7077), ('two', 7078)], [('api', 6443)])
    >>> list(master_addresses("local[*]"))
    []
    """
    scheme, _, rest = master.partition("://")
    if scheme in _DEFAULT_PORTS:
        for one in rest.split(","):
            if found := _ADDRESS.match(one):
                host, port = found["host"].strip("[]"), found["port"]
                yield host, int(port) if port else _DEFAULT_PORTS[scheme]
