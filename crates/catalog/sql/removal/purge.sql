-- Forgets settled removals. $1 catalog_id bigint, $2 retention seconds double precision, $3 rows bigint.
-- Index file_removal_settled.
delete from file_removal where removal_id in (
  select removal_id from file_removal
  where catalog_id = $1 and settled_at < clock_timestamp() - make_interval(secs => $2)
  order by settled_at limit $3)
