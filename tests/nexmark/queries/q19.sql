SELECT auction, bidder, price, channel, url, date_time, extra, nth AS rank
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS nth FROM bid
)
WHERE nth <= 10
