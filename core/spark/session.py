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

from headrace.core.spark.installation import SparkUnavailable, check_installed, find_java_home
from headrace.core.spark.settings import (
    DEFAULT_SETTINGS,
    LOCAL_MASTER,
    LOG_LEVEL,
    PYTHON_SETTING,
    SEMANTIC_SETTINGS,
    build_settings,
    check_reachable,
    is_local,
    is_on_this_machine,
)
from headrace.core.spark.spark_log import OutputPipe, silence_pyspark

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
LOCALE_VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
_EXCEPTION_PREFIX = re.compile(r'^(Exception in thread "[^"]*" )?([\w$]+\.)+\w+(Exception|Error): ')
SHOW_LOG_HINT = f"--conf {LOG_LEVEL}=INFO shows Spark's log"


@contextmanager
def open_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Open a Spark session for a batch run; it ends with the `with`. Raises SparkUnavailable.

    If this process already has a Spark context, the session shares it, and process-wide settings
    stay as they were.
    """
    check_installed()
    from pyspark import SparkContext

    wanted = build_settings(name, master or LOCAL_MASTER, conf or {})
    with nullcontext() if LOG_LEVEL in wanted else silence_pyspark():
        if SparkContext._active_spark_context is not None:
            yield _share_context(wanted)
            return
        check_reachable(wanted["spark.master"])
        spark = _start_session(wanted)
        try:
            yield spark
        finally:
            with suppress(Exception):  # Java itself may have ended, which was reported already
                spark.stop()
            _shut_down_java()


def _share_context(wanted: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate().newSession()
    for key in (
        *SEMANTIC_SETTINGS,
        *(key for key in DEFAULT_SETTINGS if key.startswith("spark.sql.")),
    ):
        spark.conf.set(key, wanted[key])
    return spark


def _start_session(wanted: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
    output = OutputPipe()
    with _set_environment(_spark_environment(wanted)):
        try:
            gateway = _start_gateway(conf, output, shown=LOG_LEVEL in wanted)
            context = SparkContext(conf=conf, gateway=gateway)
        except (PySparkException, Py4JError, OSError) as error:
            _shut_down_java()
            raise _describe_start_error(wanted["spark.master"], error, output.lines()) from error
    return SparkSession(context)


def _start_gateway(conf: object, output: OutputPipe, *, shown: bool) -> JavaGateway:
    """Start Java, and return the gateway to it."""
    from pyspark.java_gateway import launch_gateway

    stream = sys.__stderr__.fileno() if shown and sys.__stderr__ else output.writing
    try:
        # Outside the terminal's process group: Java must not receive Ctrl-C or a hang-up.
        how = {"stdout": stream, "stderr": stream, "start_new_session": True}
        return launch_gateway(conf, how)  # type: ignore[no-untyped-call]
    finally:
        output.close_writer()


def _shut_down_java() -> None:
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


def _spark_environment(wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Return the environment variables to set for Spark; None removes a variable."""
    import pyspark

    master = wanted["spark.master"]
    here: dict[str, str | None] = {
        "JAVA_HOME": str(find_java_home()),
        # Use the package's jars even if another Spark is installed.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_SUBMIT_ARGS": None,
        "SPARK_REMOTE": None,
        "LOG4J_CONFIGURATION_FILE": LOG_CONFIGURATION.as_uri(),
        "HEADRACE_SPARK_LOG": wanted.get(LOG_LEVEL),
    }
    if is_local(master):
        here["SPARK_LOCAL_IP"] = "127.0.0.1"
    if "utf" not in "".join(os.environ.get(name, "") for name in LOCALE_VARIABLES).lower():
        # Java decodes file names by the locale.
        here["LC_ALL"] = "C.UTF-8"
    if PYTHON_SETTING in wanted:
        here["PYSPARK_PYTHON"] = wanted[PYTHON_SETTING]
    elif is_on_this_machine(master):
        here["PYSPARK_PYTHON"] = sys.executable
    return here


@contextmanager
def _set_environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    _update_environment(changes)
    try:
        yield
    finally:
        _update_environment(before)


def _update_environment(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _describe_start_error(master: str, error: Exception, lines: Sequence[str]) -> SparkUnavailable:
    """Say why Spark did not start: by Java's last error line, or the exception's first line."""
    errors = [line for line in lines if "rror" in line or "xception" in line] or list(lines)[-1:]
    first = str(getattr(error, "java_exception", "") or error).strip().splitlines()
    why = (errors or first or [type(error).__name__])[0].strip()
    message = f"Spark did not start with --master {master}: {_EXCEPTION_PREFIX.sub('', why)}"
    return SparkUnavailable(message, SHOW_LOG_HINT, exit_status=1)
