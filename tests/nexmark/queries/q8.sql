SELECT p.id, p.name, p.stime
FROM (
  SELECT DISTINCT id, name, time_bucket(INTERVAL 10 SECONDS, date_time) AS stime FROM person
) AS p
JOIN (
  SELECT DISTINCT seller, time_bucket(INTERVAL 10 SECONDS, date_time) AS stime FROM auction
) AS a
ON p.id = a.seller AND p.stime = a.stime
