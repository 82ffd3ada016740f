-- Claims live pending files. $1 catalog_id bigint, $2 claimant uuid, $3 lease seconds double precision, $4 limit bigint.
-- Indexes data_file_pending, primary keys. A claim is an attempt that is due again when the lease ends. The condition on
-- conflict is checked on the newest row, so that two claimants never get the same file. A row a claimed file.
with due as materialized (
  select f.data_file_id from data_file f
  join table_identity i on i.catalog_id = f.catalog_id and i.table_id = f.table_id and i.dropped_snapshot is null
  left join hydration h on h.catalog_id = f.catalog_id and h.data_file_id = f.data_file_id
  where f.catalog_id = $1 and f.end_snapshot is null and f.stats_state = 'pending'
    and (h.next_attempt_at is null or h.next_attempt_at <= clock_timestamp())
  order by f.data_file_id
  limit $4
), claimed as (
  insert into hydration as h (catalog_id, data_file_id, attempts, next_attempt_at, claimed_by)
  select $1, data_file_id, 1, clock_timestamp() + make_interval(secs => $3), $2 from due
  on conflict (catalog_id, data_file_id) do update
  set attempts = h.attempts + 1, next_attempt_at = excluded.next_attempt_at, claimed_by = excluded.claimed_by
  where h.next_attempt_at <= clock_timestamp()
  returning data_file_id, attempts
)
select f.data_file_id, f.table_id, f.begin_snapshot, f.path, f.record_count, f.file_size_bytes, f.footer_size, c.attempts
from claimed c join data_file f on f.catalog_id = $1 and f.data_file_id = c.data_file_id
order by f.data_file_id
