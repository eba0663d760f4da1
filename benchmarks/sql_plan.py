"""Time to parse and plan a pipeline with a query of 100 lines: CPU ms, the least of the rounds.

Cold is the first time in a process, after all modules are imported; warm is the tenth. With
imports, all but Polars is imported meanwhile. Each time the YAML of three sources and a sink is
read as well.
`python -m benchmarks.sql_plan [ROUNDS]`
"""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import indent
from time import process_time

from benchmarks.timing import compile_all

SOURCES = """\
name: board
sources:
  orders:
    files: {path: orders.jsonl}
    schema:
      {id: bigint, customer: bigint, status: string, amount: "decimal(12,2)", channel: string,
        at: timestamp}
    event_time: at
    table: {key: id}
  items:
    files: {path: items.jsonl}
    schema:
      {order_id: bigint, line: int, sku: string, quantity: int, price: "decimal(12,2)",
        at: timestamp}
    event_time: at
    table: {key: [order_id, line]}
  customers:
    files: {path: customers.jsonl}
    schema: {id: bigint, name: string, city: string, segment: string, since: date, at: timestamp}
    event_time: at
    table: {key: id}
sinks:
  out: {from: board, files: {path: out}}
steps:
  board:
    sql: |
"""
QUERY = """\
with paid as (
  select
    o.id,
    o.customer,
    o.amount,
    lower(trim(o.channel)) as channel,
    date_trunc('day', o.at) as day,
    case
      when o.amount >= 1000 then 'large'
      when o.amount >= 100 then 'medium'
      else 'small'
    end as size
  from orders o
  where o.status in ('paid', 'sent', 'delivered')
    and o.amount > 0
    and o.channel is not null
),
lines as (
  select
    i.order_id,
    count(*) as line_count,
    sum(i.quantity) as pieces,
    sum(i.quantity * i.price) as gross,
    max(i.price) as dearest,
    count(distinct i.sku) as skus
  from items i
  where i.quantity > 0
    and not i.sku like 'TEST-%'
  group by i.order_id
),
known as (
  select
    c.id,
    initcap(c.name) as name,
    coalesce(c.city, 'unknown') as city,
    coalesce(c.segment, 'none') as segment,
    year(c.since) as since
  from customers c
  where c.name is not null
),
joined as (
  select
    p.id,
    p.day,
    p.size,
    p.channel,
    p.amount,
    k.city,
    k.segment,
    k.since,
    coalesce(l.pieces, 0) as pieces,
    coalesce(l.line_count, 0) as line_count,
    coalesce(l.gross, p.amount) as gross,
    coalesce(l.gross, p.amount) - p.amount as discount,
    l.dearest
  from paid p
  join known k on p.customer = k.id
  left join lines l on p.id = l.order_id
),
cities as (
  select
    city,
    segment,
    day,
    count(*) as orders,
    count_if(size = 'large') as large_orders,
    sum(amount) as revenue,
    sum(discount) as discount,
    avg(pieces) as pieces,
    max(dearest) as dearest,
    sum(case when channel = 'web' then amount else 0 end) as web,
    sum(case when channel = 'app' then amount else 0 end) as app,
    sum(case when channel not in ('web', 'app') then amount else 0 end) as other
  from joined
  where since is null or since >= 2000
  group by city, segment, day
  having count(*) > 1
),
ranked as (
  select
    city,
    segment,
    day,
    orders,
    large_orders,
    revenue,
    web / nullif(revenue, 0) as web_share,
    app / nullif(revenue, 0) as app_share,
    discount / nullif(revenue + discount, 0) as discount_share,
    round(pieces, 2) as pieces,
    row_number() over (partition by segment, day order by revenue desc) as place
  from cities
)
select
  segment,
  day,
  city,
  concat_ws('/', segment, city) as label,
  orders, large_orders, revenue, web_share, app_share, discount_share, pieces, place
from ranked
where place <= 10
"""


def plan_in_child(file: str, modules: str) -> None:
    """Print the time of each of ten plans, and the modules that are loaded then."""
    gc.disable()
    from headrace.cli.process_limits import check_process_limits

    check_process_limits()
    start = process_time()
    from headrace.connectors.registry import REGISTRY
    from headrace.core.pipeline.loader import load_pipeline
    from headrace.core.plan.plan_assembly import build_plan

    if modules:
        for name in modules.split():
            importlib.import_module(name)
        start = process_time()
    took = []
    for _ in range(10):
        plan, problems = build_plan(load_pipeline(file, REGISTRY))
        assert plan is not None, problems
        took.append((process_time() - start) * 1000)
        start = process_time()
    print(*took)
    print(*(name for name in sys.modules if name.startswith("headrace.")))


def main(rounds: str = "7") -> None:
    """Print the figures."""
    compile_all()
    imported, cold, warm = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "board.yaml")
        file.write_text(SOURCES + indent(QUERY, " " * 6), "utf-8")
        for _ in range(int(rounds)):
            took, modules = _run_child(file, "")
            imported.append(took[0])
            took, _ = _run_child(file, modules)
            cold.append(took[0])
            warm.append(took[-1])
    print(f"cold {min(cold):.0f} ms, warm {min(warm):.0f} ms, with imports {min(imported):.0f} ms")


def _run_child(file: Path, modules: str) -> tuple[list[float], str]:
    """Plan in a new process; return the times and the modules that it has loaded."""
    command = [sys.executable, "-m", "benchmarks.sql_plan", "--child", str(file), modules]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    took, loaded = done.stdout.splitlines()
    return [float(each) for each in took.split()], loaded


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        plan_in_child(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
