-- AVG of whole numbers is a whole number in Flink.
SELECT auction, strftime(date_time, '%Y-%m-%d') AS day,
  count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  min(price) AS min_price, max(price) AS max_price,
  CAST(sum(price) // count(*) AS BIGINT) AS avg_price, CAST(sum(price) AS BIGINT) AS sum_price
FROM bid GROUP BY auction, day
