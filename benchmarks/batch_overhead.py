"""Time of --batch before Spark starts and after it ends, together: seconds, median of five.

Java is started by a script that records the times at which Java starts and ends. Between them Spark
starts, processes ten rows, and ends.
`python -m benchmarks.batch_overhead [ROUNDS]`
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.timing import compile_all

PIPELINE = """
name: ten
sources: {rows: {generate: {rows: 10, columns: {x: id}}}}
sinks: {out: {from: rows, files: {path: out, mode: overwrite}}}
"""
JAVA = """\
#!/bin/sh
date +%s.%N >> {times}
{java} "$@"
status=$?
date +%s.%N >> {times}
exit $status
"""


def main(rounds: str = "5") -> None:
    """Print the figure, and its parts on stderr."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        taken = [_round(Path(folder)) for _ in range(int(rounds))]
    before, after = (median(part) for part in zip(*taken, strict=True))
    print(f"{median(map(sum, taken)):.2f} s before Spark starts and after it ends")
    print(f"  before {before:.2f} s, after {after:.2f} s", file=sys.stderr)


def _round(root: Path) -> tuple[float, float]:
    (root / "p.yaml").write_text(PIPELINE)
    times = root / "times"
    times.unlink(missing_ok=True)
    home = _java(root, times)
    command = ["-m", "headrace.cli", "run", str(root / "p.yaml"), "--batch", "--quiet"]
    environment = {**os.environ, "JAVA_HOME": str(home), "HEADRACE_HOME": str(root / "home")}
    start = time.time()
    subprocess.run([sys.executable, *command], check=True, env=environment, cwd=root)
    end = time.time()
    noted = [float(line) for line in times.read_text().split()]
    return min(noted) - start, end - max(noted)


def _java(root: Path, times: Path) -> Path:
    """Create a Java home whose program records its start and end."""
    real = shutil.which("java")
    assert real is not None, "there is no Java"
    program = root / "java" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(JAVA.format(times=times, java=os.path.realpath(real)))
    program.chmod(0o755)
    release = Path(os.path.realpath(real)).parent.parent / "release"
    shutil.copy(release, root / "java" / "release")
    return root / "java"


if __name__ == "__main__":
    main(*sys.argv[1:])
