-- AVG of whole numbers is a whole number in Flink.
SELECT category AS id, CAST(sum(final) // count(*) AS BIGINT) AS final
FROM (
  SELECT max(b.price) AS final, a.category
  FROM auction AS a JOIN bid AS b
    ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category
