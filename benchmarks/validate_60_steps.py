"""Time of `headrace validate` over a pipeline of 60 steps: the median of 7 processes, in seconds.

The pipeline resembles one that has grown over years: twelve lines of five steps (clean, enrich,
split, label, reduce), some of which meet in unions.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

LINES = 12


def pipeline() -> str:
    """Return the YAML of the pipeline."""
    sources = "".join(_source(n) for n in range(LINES))
    steps = "".join(text for n in range(LINES) for text in _steps(n))
    sinks = "".join(_sinks(n) for n in range(LINES))
    return f"name: sixty\n\nsources:\n{sources}\nsteps:\n{steps}\nsinks:\n{sinks}"


def _source(n: int) -> str:
    return f"""\
  orders_{n}:
    files: {{path: "in_{n}/*.jsonl"}}
    schema:
      order_id: bigint not null
      customer: string
      amount: double
      items: array<struct<sku:string,price:double>>
      at: timestamp
    event_time: at
    watermark: {{delay: 5s, idle: 1m}}
    on_error: {{to: rejected_{n}}}
"""


def _steps(n: int) -> Iterator[str]:
    yield f"""\
  clean_{n}:
    from: orders_{n}
    where: amount > {n} and customer is not null and not (customer like 'test%')
    with: {{customer: upper(trim(customer)), day: to_date(at)}}
"""
    yield f"""\
  lines_{n}:
    from: clean_{n}
    explode: {{item: items}}
    select:
      order_id: order_id
      customer: customer
      sku: coalesce(item.sku, 'none')
      price: round(item.price * 0.908D, 2)
      hour: date_trunc('hour', at)
      size: case when item.price > 100 then 'large' when item.price > 10 then 'small' else null end
"""
    before = f", all_{n - 1}" if n % 4 else ""
    yield f"  all_{n}: {{from: [lines_{n}{before}], where: order_id > 0}}\n"
    yield f"""\
  split_{n}:
    from: all_{n}
    route: {{large: size = 'large' and price >= {n}, known: "sku in ('a', 'b', 'c{n}')"}}
"""
    yield f"""\
  short_{n}:
    from: [split_{n}.large, split_{n}.known]
    select:
      order_id: order_id
      label: concat_ws('/', customer, sku, order_id % {n + 2})
      late: hour(hour) not between 8 and 20
      price: cast(price as decimal(12,2)) * 2
"""


def _sinks(n: int) -> str:
    return f"""\
  out_{n}: {{from: short_{n}, files: {{path: out/{n}}}}}
  rest_{n}: {{from: split_{n}.else, files: {{path: rest/{n}}}, format: csv}}
  bad_{n}: {{from: rejected_{n}, files: {{path: bad/{n}}}}}
"""


def main() -> None:
    """Print the figure; on stderr, its ratio to an empty interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "sixty.yaml")
        file.write_text(pipeline(), "utf-8")
        took = _median_s(7, "-m", "headrace.cli", "validate", str(file))
    empty = _median_s(7, "-c", "pass")
    print(f"validate_60_steps {took:.2f} s")
    print(f"x {took / empty:.0f} of an empty Python ({empty:.3f} s)", file=sys.stderr)


def _median_s(times: int, *arguments: str) -> float:
    took = []
    for _ in range(times):
        start = perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stderr=subprocess.DEVNULL)
        took.append(perf_counter() - start)
    return median(took)


if __name__ == "__main__":
    main()
