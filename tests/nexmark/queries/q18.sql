SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS nth FROM bid
)
WHERE nth <= 1
