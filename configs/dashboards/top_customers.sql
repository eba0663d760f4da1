-- The ten customers who paid most, with their last order and how they rank in their city.
with totals as (
  select o.customer, count(distinct o.id) as orders, sum(i.quantity * i.price) as revenue,
    avg(i.price) as mean_price
  from orders o
  join items i on i.order_id = o.id
  where o.state in ('paid', 'shipped', 'delivered')
  group by o.customer
),
latest as (
  select *
  from (
    select id, customer, state, placed_at,
      row_number() over (partition by customer order by placed_at desc, id desc) as n
    from orders
  ) numbered
  where n = 1
)
select row_number() over (order by t.revenue desc, t.customer) as place,
  c.name, upper(c.city) as city, t.orders, t.revenue, round(t.mean_price, 2) as mean_price,
  l.id as last_order, l.state as last_state, l.placed_at as last_at,
  case
    when t.revenue >= 500 then 'gold'
    when t.orders > 2 then 'silver'
    else 'bronze'
  end as tier
from totals t
join customers c on c.id = t.customer
left join latest l on l.customer = t.customer
where not exists (
  select 1 from orders x where x.customer = t.customer and x.state = 'disputed'
)
qualify place <= 10
