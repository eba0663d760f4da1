-- The auctions with the most bids in the last 10 seconds, every 2 seconds.
with counts as (
  select auction, count(*) as num, window_end as ends
  from bids
  group by auction, hop(date_time, interval 2 seconds, interval 10 seconds)
)
select auction, num
from counts join (
  select ends, max(num) as most
  from counts
  group by ends
) highest
on counts.ends = highest.ends and num >= most
