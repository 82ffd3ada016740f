-- Forgets answers that are older than their retention. $1 seconds double precision, $2 limit bigint. conversion_finished.
delete from conversion
where conversion_id in (
  select conversion_id from conversion
  where state = 'finished' and finished_at < clock_timestamp() - make_interval(secs => $1)
  order by finished_at
  limit $2
)
