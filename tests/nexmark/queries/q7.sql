-- The bid at the very end of a period is looked at in both, as in Flink's query.
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b JOIN (
  SELECT max(price) AS highest, time_bucket(INTERVAL 10 SECONDS, date_time) + INTERVAL 10 SECONDS AS ends
  FROM bid GROUP BY ends
) AS m
ON b.price = m.highest AND b.date_time BETWEEN m.ends - INTERVAL 10 SECONDS AND m.ends
