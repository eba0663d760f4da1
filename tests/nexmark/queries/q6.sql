-- The average over the last ten auctions of a seller that were sold and closed. Flink has no answer of
-- its own: it does not run this query, and the text that it ships orders by the bid and has eleven rows.
WITH sold AS (
  SELECT a.id, a.seller, a.expires, max(b.price) AS price
  FROM auction AS a JOIN bid AS b
    ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.seller, a.expires
)
SELECT seller, CAST(sum(price) // count(*) AS BIGINT) AS avg_price
FROM (
  SELECT *, row_number() OVER (PARTITION BY seller ORDER BY expires DESC) AS nth FROM sold
)
WHERE nth <= 10
GROUP BY seller
