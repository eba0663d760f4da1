SELECT * EXCLUDE (nth), nth AS rank
FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) AS nth
  FROM auction AS a JOIN bid AS b
    ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
)
WHERE nth <= 1
