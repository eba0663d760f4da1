-- Revenue by day and city, its percent of the day, and the change from the orders that were returned.
with lines as (
  select i.order_id, i.line, i.quantity * i.price as amount,
    coalesce(r.quantity, 0) * i.price as returned
  from items i
  left join returns r on r.order_id = i.order_id and r.line = i.line
),
sold as (
  select date_trunc('day', o.placed_at) as day, coalesce(c.city, 'unknown') as city,
    o.id as order_id, l.amount, l.returned
  from orders o
  join lines l on l.order_id = o.id
  left join customers c on c.id = o.customer
  where o.state <> 'cancelled'
),
cities as (
  select day, city, count(distinct order_id) as orders,
    sum(amount) as gross, sum(amount) - sum(returned) as net
  from sold
  group by day, city
)
select day, city, orders, gross, net,
  round(100 * net / sum(net) over (partition by day), 2) as percent_of_day,
  round(100 * net / (select sum(t.net) from cities t), 2) as percent_of_all
from cities
