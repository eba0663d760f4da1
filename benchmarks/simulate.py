"""Seeds of `headrace simulate` in a second of CPU time, faults included: `[SEEDS]`, by default 40.

Each seed has up to 200 rows. `three_steps` has a filter, a window and a running aggregate; `tables`
aggregates a table whose rows change. Its batches are as small, and need several times the work.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import process_time

from headrace.cli.pipeline_tests.checked_tests import Suite, check_suite
from headrace.cli.simulation.simulation import Simulation

KAFKA = 'kafka: {brokers: "localhost:9092", topic: t, group: g}'
PIPELINES = {
    "three_steps": f"""\
sources:
  orders:
    {KAFKA}
    schema: {{ts: timestamp, user: string, amount: int}}
    event_time: ts
    watermark: {{delay: 10s}}
steps:
  paid: {{from: orders, where: amount > 0, with: {{twice: amount * 2}}}}
  totals:
    from: paid
    key: user
    window: {{tumble: 1m, late_to: late}}
    aggregate: {{total: sum(twice)}}
  most: {{from: totals, key: user, aggregate: {{most: max(total)}}}}
sinks:
  a: {{from: most, console: {{}}}}
  b: {{from: late, console: {{}}}}
""",
    "tables": f"""\
sources:
  users:
    {KAFKA}
    schema: {{id: int, tier: string, version: bigint}}
    table: {{key: [id], sequence: version}}
steps:
  tiers: {{from: users, key: tier, aggregate: {{n: count(*)}}}}
sinks:
  a: {{from: tiers, console: {{}}}}
""",
}


def measure(name: str, seeds: int) -> None:
    """Print the rate of one pipeline."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "p.yaml"
        file.write_text(f"name: {name}\n{PIPELINES[name]}", "utf-8")
        simulation = Simulation(check_suite(Suite(str(file), with_section=True), ()), 200, {})
        simulation.run_seed(seeds)
        start_s = process_time()
        for seed in range(seeds):
            assert not simulation.run_seed(seed), seed
        print(f"{name:12} {seeds / (process_time() - start_s):5.1f} seeds/s of CPU time")


if __name__ == "__main__":
    for name in PIPELINES:
        measure(name, int(sys.argv[1]) if len(sys.argv) > 1 else 40)
