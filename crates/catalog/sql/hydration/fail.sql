-- Marks files whose footer cannot be used. $1 catalog_id bigint, $2 claimant uuid, $3 ids bigint[], $4 reasons text[].
-- Primary keys. Returns how many were marked.
with failed as (
  update hydration h set last_error = w.reason, claimed_by = null
  from unnest($3::bigint[], $4::text[]) as w(data_file_id, reason)
  where h.catalog_id = $1 and h.data_file_id = w.data_file_id and h.claimed_by = $2
  returning h.data_file_id
), marked as (
  update data_file f set stats_state = 'failed' from failed
  where f.catalog_id = $1 and f.data_file_id = failed.data_file_id and f.stats_state = 'pending'
  returning 1
)
select count(*) from marked
