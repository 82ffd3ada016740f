-- Stores what footers said, where the claim is still ours and the file still pending. $1 catalog_id bigint,
-- $2 claimant uuid; files: $3 ids bigint[], $4 missing field ids bool[], $5 footer sizes bigint[]; statistics: $6 file ids
-- bigint[], $7 field ids, $8 value counts, $9 null counts, $10 NaN counts, $11 sizes, $12 lower bounds, $13 upper bounds
-- as text[] of array literals. Primary keys. Returns how many files were provided.
with settled as (
  update data_file f
  set stats_state = 'provided', missing_field_ids = w.missing_field_ids,
      footer_size = coalesce(w.footer_size, f.footer_size)
  from unnest($3::bigint[], $4::bool[], $5::bigint[]) as w(data_file_id, missing_field_ids, footer_size)
  join hydration h on h.catalog_id = $1 and h.data_file_id = w.data_file_id and h.claimed_by = $2
  where f.catalog_id = $1 and f.data_file_id = w.data_file_id and f.stats_state = 'pending'
  returning f.data_file_id
), statistics as (
  insert into file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes_bytes,
                               lower_bounds, upper_bounds)
  select $1, w.data_file_id, w.field_ids::int[], w.value_counts::bigint[], w.null_counts::bigint[],
         w.nan_counts::bigint[], w.sizes::bigint[], w.lower_bounds::bytea[], w.upper_bounds::bytea[]
  from unnest($6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[])
    as w(data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes, lower_bounds, upper_bounds)
  join settled using (data_file_id)
  on conflict (catalog_id, data_file_id) do nothing
), done as (
  delete from hydration h using settled s where h.catalog_id = $1 and h.data_file_id = s.data_file_id
)
select count(*) from settled
