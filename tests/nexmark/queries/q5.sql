-- HOP of Flink, with a row for each of the five windows that a bid is in.
WITH counted AS (
  SELECT auction, ends, count(*) AS num
  FROM (
    SELECT auction,
      unnest([time_bucket(INTERVAL 2 SECONDS, date_time) + n * INTERVAL 2 SECONDS
              FOR n IN range(1, 6)]) AS ends
    FROM bid
  )
  GROUP BY auction, ends
)
SELECT auction, num
FROM counted JOIN (SELECT ends, max(num) AS most FROM counted GROUP BY ends) USING (ends)
WHERE num >= most
