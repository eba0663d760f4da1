-- Products whose stock, of deliveries, orders and returns, is below their reorder level.
with moves as (
  select product, quantity, 'delivered' as kind from deliveries
  union all
  select i.product, -i.quantity, 'sold'
  from items i join orders o on o.id = i.order_id
  where o.state not in ('new', 'cancelled')
  union all
  select i.product, r.quantity, 'returned'
  from returns r join items i using (order_id, line)
),
stock as (
  select product, sum(quantity) as on_hand,
    -sum(case when kind = 'sold' then quantity end) as sold,
    sum(quantity) filter (where kind = 'returned') as returned
  from moves
  group by product
)
select p.id, p.name, p.category, coalesce(s.on_hand, 0) as on_hand, p.reorder_level,
  p.reorder_level - coalesce(s.on_hand, 0) as missing,
  coalesce(s.sold, 0) as sold, coalesce(s.returned, 0) as returned,
  (select max(d.arrived_at) from deliveries d where d.product = p.id) as last_delivery,
  p.id in (select i.product from items i join orders o on o.id = i.order_id
    where o.state = 'new') as is_wanted
from products p
left join stock s on s.product = p.id
where coalesce(s.on_hand, 0) < p.reorder_level
  and p.id not in (select product from discontinued where product is not null)
