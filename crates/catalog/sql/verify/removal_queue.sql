-- Queued paths of this catalog that some row still refers to. $1 catalog_id bigint. Indexes file_removal_queue,
-- data_file_by_path, delete_file_by_path. One row: violations, samples.
with violation as materialized (
  select format('removal %s would delete %s, which %s refers to', q.removal_id, q.path, r.referrer) as detail
  from file_removal q
  cross join lateral (
    (select format('data file %s of table %s in catalog %s', f.data_file_id, f.table_id, f.catalog_id) as referrer
     from data_file f where hashtextextended(f.path, 0) = hashtextextended(q.path, 0) and f.path = q.path limit 1)
    union all
    (select format('deletion vector %s of table %s in catalog %s', d.delete_file_id, d.table_id, d.catalog_id)
     from delete_file d where hashtextextended(d.path, 0) = hashtextextended(q.path, 0) and d.path = q.path limit 1)
    limit 1) r
  where q.catalog_id = $1 and q.settled_at is null
)
select (select count(*) from violation), array(select detail from violation limit 20)
