-- Orders by state: how many, what they are worth, how old they are, and their percent of all orders.
-- An age is counted up to the newest order, so that the table does not change while nothing happens.
with amounts as (
  select order_id, sum(quantity * price) as amount from items group by order_id
),
aged as (
  select o.id, o.state, coalesce(a.amount, 0) as amount,
    unix_timestamp(n.newest) - unix_timestamp(o.placed_at) as age_s
  from orders o
  left join amounts a on a.order_id = o.id
  cross join (select max(placed_at) as newest from orders) n
),
states as (
  select * from values
    (1, 'new'), (2, 'paid'), (3, 'shipped'), (4, 'delivered'), (5, 'cancelled') as s(step, state)
)
select s.step, s.state, count(o.id) as orders,
  coalesce(sum(o.amount), 0) as amount,
  round(avg(o.age_s) / 3600, 1) as mean_age_hours,
  round(max(o.age_s) / 3600, 1) as oldest_hours,
  count(case when o.age_s > 86400 and s.step < 4 then 1 end) as overdue,
  sum(case when o.age_s > 86400 and s.step < 4 then o.amount else 0 end) as overdue_amount,
  round(100 * count(o.id) / sum(count(o.id)) over (), 1) as percent
from states s
left join aged o on o.state = s.state
group by s.step, s.state
