SELECT bidder, count(*) AS bid_count, min(date_time) AS starttime,
  max(date_time) + INTERVAL 10 SECONDS AS endtime
FROM (
  SELECT *, sum(begins) OVER (PARTITION BY bidder ORDER BY date_time) AS session
  FROM (
    SELECT *, CASE WHEN date_time - lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time)
      > INTERVAL 10 SECONDS THEN 1 ELSE 0 END AS begins
    FROM bid
  )
)
GROUP BY bidder, session
