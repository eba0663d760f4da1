-- Of the customers whose first order was in a month, how many ordered again in each month after it.
with placed as (
  select customer, trunc(placed_at, 'month') as month
  from orders
  where state <> 'cancelled'
),
firsts as (
  select customer, min(month) as cohort from placed group by customer
),
active as (
  select f.cohort, cast(months_between(p.month, f.cohort) as int) as months_later,
    count(distinct p.customer) as customers, count(*) as orders
  from placed p
  join firsts f on f.customer = p.customer
  group by 1, 2
),
sizes as (
  select cohort, count(*) as size from firsts group by cohort
)
select a.cohort, s.size, a.months_later, a.customers, a.orders,
  round(100.0 * a.customers / s.size, 1) as retention
from active a
join sizes s on s.cohort = a.cohort
