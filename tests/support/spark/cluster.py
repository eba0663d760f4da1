"""A standalone cluster on this machine: a master, and a worker that has room for two executors."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from headrace.core.spark.installation import find_java_home
from tests.support.java import FOR_ALL

HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Successfully registered with master")
LONGEST_S = 600.0


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The master's URL, once the worker has found it."""
    with ExitStack() as stack:
        here = ("--host", "127.0.0.1", "--webui-port", "0")
        log = stack.enter_context(_started(f"{DEPLOY}.master.Master", *here, "--port", "0"))
        master = _seen(log, MASTER)[1]
        size = ("--cores", "2", "--memory", "1200m", "--work-dir", str(folder / "worker"))
        log = stack.enter_context(_started(f"{DEPLOY}.worker.Worker", *here, *size, master))
        _seen(log, REGISTERED)
        yield master


@contextmanager
def _started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = (
        os.environ
        | FOR_ALL
        | {
            "JAVA_HOME": str(find_java_home()),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
    )
    command: Sequence[str] = [str(HOME / "bin" / "spark-class"), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stderr=pipe, text=True) as process:
        limit = threading.Timer(LONGEST_S, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.terminate()


def _seen(process: subprocess.Popen[str], line: re.Pattern[str]) -> re.Match[str]:
    """Wait for the line; all later output is read and ignored."""
    assert process.stderr is not None
    said = []
    for each in process.stderr:
        said.append(each)
        if found := line.search(each):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return found
    raise AssertionError("".join(said))
