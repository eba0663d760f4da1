"""Lifetime of a Spark session, without Spark's output.

Java is started here and not by pyspark, which would pass on our standard streams and the terminal's
signals: Ctrl-C is a request to headrace, which then cancels Spark's jobs itself.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.spark.absent import NoSpark, check_installed
from headrace.core.spark.java import java_home
from headrace.core.spark.masters import check_reached
from headrace.core.spark.quiet import Said, unwritten
from headrace.core.spark.settings import (
    LOCAL,
    LOG_LEVEL,
    MEANING,
    PYTHON,
    SPEED,
    is_local,
    on_this_machine,
    settings,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
_THROWN = re.compile(r'^(Exception in thread "[^"]*" )?([\w$]+\.)+\w+(Exception|Error): ')
SHOW_LOG = f"--conf {LOG_LEVEL}=INFO shows Spark's log"


@contextmanager
def session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Open a Spark session for a batch; it ends with the `with`. Raises SparkUnavailable.

    If this process already has a Spark context, the session shares it, and process-wide settings
    stay as they were.
    """
    check_installed()
    from pyspark import SparkContext

    wanted = settings(name, master or LOCAL, conf or {})
    with nullcontext() if LOG_LEVEL in wanted else unwritten():
        if SparkContext._active_spark_context is not None:
            yield _beside(wanted)
            return
        check_reached(wanted["spark.master"])
        spark = _started(wanted)
        try:
            yield spark
        finally:
            with suppress(Exception):  # Java itself may have ended, which was reported already
                spark.stop()
            _let_go()


def _beside(wanted: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate().newSession()
    for key in (*MEANING, *(key for key in SPEED if key.startswith("spark.sql."))):
        spark.conf.set(key, wanted[key])
    return spark


def _started(wanted: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
    said = Said()
    with _environment(_for_spark(wanted)):
        try:
            gateway = _gateway(conf, said, shown=LOG_LEVEL in wanted)
            context = SparkContext(conf=conf, gateway=gateway)
        except (PySparkException, Py4JError, OSError) as error:
            _let_go()
            raise _not_started(wanted["spark.master"], error, said.lines()) from error
    return SparkSession(context)


def _gateway(conf: object, said: Said, *, shown: bool) -> JavaGateway:
    """Start Java, and return the gateway to it."""
    from pyspark.java_gateway import launch_gateway

    stream = sys.__stderr__.fileno() if shown and sys.__stderr__ else said.writing
    try:
        # Outside the terminal's process group: Java must not receive Ctrl-C or a hang-up.
        how = {"stdout": stream, "stderr": stream, "start_new_session": True}
        return launch_gateway(conf, how)  # type: ignore[no-untyped-call]
    finally:
        said.started()


def _let_go() -> None:
    """Shut Java down, if it runs: it ends when its standard input is closed."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    with suppress(Exception):
        gateway.shutdown()
    process = gateway.proc
    if process is not None:
        with suppress(OSError):
            process.stdin.close()
        process.wait()


def _for_spark(wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Return the environment variables to set for Spark; None removes a variable."""
    import pyspark

    master = wanted["spark.master"]
    here: dict[str, str | None] = {
        "JAVA_HOME": str(java_home()),
        # Use the package's jars even if another Spark is installed.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_SUBMIT_ARGS": None,
        "SPARK_REMOTE": None,
        "LOG4J_CONFIGURATION_FILE": LOG_CONFIGURATION.as_uri(),
        "HEADRACE_SPARK_LOG": wanted.get(LOG_LEVEL),
    }
    if is_local(master):
        here["SPARK_LOCAL_IP"] = "127.0.0.1"
    if "utf" not in "".join(os.environ.get(name, "") for name in LOCALE).lower():
        # Java decodes file names by the locale.
        here["LC_ALL"] = "C.UTF-8"
    if PYTHON in wanted:
        here["PYSPARK_PYTHON"] = wanted[PYTHON]
    elif on_this_machine(master):
        here["PYSPARK_PYTHON"] = sys.executable
    return here


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    _change(changes)
    try:
        yield
    finally:
        _change(before)


def _change(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _not_started(master: str, error: Exception, lines: Sequence[str]) -> NoSpark:
    """Say why Spark did not start: by Java's last error line, or the exception's first line."""
    errors = [line for line in lines if "rror" in line or "xception" in line] or list(lines)[-1:]
    first = str(getattr(error, "java_exception", "") or error).strip().splitlines()
    why = (errors or first or [type(error).__name__])[0].strip()
    message = f"Spark did not start with --master {master}: {_THROWN.sub('', why)}"
    return NoSpark(message, SHOW_LOG, exit_status=1)
