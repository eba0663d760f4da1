-- Over all windows of processing time: how the bids of a bidder are spread over them differs each time.
SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder
