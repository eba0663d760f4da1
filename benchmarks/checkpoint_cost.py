"""Cost of checkpoints: W3 and W4 with one each second against none, CPU of the whole process.

The figure is the ratio of the least times of all rounds; the ratios of the single rounds follow.
`python -m benchmarks.checkpoint_cost [w3|w4] [ROUNDS] [MILLIONS]`
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.bids import bids
from benchmarks.timing import compile_all
from benchmarks.works import cpu_s, pipeline, run


def main(work: str = "w3", rounds: str = "3", millions: str = "6") -> None:
    """Print the figure."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "bids.jsonl").write_bytes(bids(int(millions) * 1_000_000))
        (root / "p.yaml").write_text(pipeline(work))
        taken = [_round(root) for _ in range(int(rounds))]
    with_, without = (min(each[at] for each in taken) for at in (0, 1))
    print(f"{work} {with_ / without:.3f} times the CPU without checkpoints")
    shown = ", ".join(f"{one / other:.3f}" for one, other in taken)
    print(f"  {with_:.2f} s against {without:.2f} s (rounds {shown})", file=sys.stderr)


def _round(root: Path) -> tuple[float, float]:
    """Return the CPU seconds with and without checkpoints."""

    def measured(checkpoints: str) -> float:
        shutil.rmtree(root / "out", ignore_errors=True)
        return cpu_s([sys.executable, *run(root, checkpoints)])

    return measured("1s"), measured("never")


if __name__ == "__main__":
    main(*sys.argv[1:])
