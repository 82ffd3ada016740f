-- Claims the inputs of a group, all or nothing (the caller rolls back unless every one was claimed). $1 catalog_id
-- bigint, $2 claimant uuid, $3 lease seconds double precision, $4 data files bigint[] ascending. Primary key. Returns
-- how many.
with claimed as (
  insert into compaction_claim as c (catalog_id, data_file_id, claimed_by, claimed_until)
  select $1, f, $2, clock_timestamp() + make_interval(secs => $3) from unnest($4::bigint[]) f
  on conflict (catalog_id, data_file_id) do update
  set claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until
  where c.claimed_until <= clock_timestamp()
  returning 1
)
select count(*) from claimed
