-- A page of deletion vectors that ended at or below the floor. $1 catalog_id bigint, $2 floor bigint, $3 rows bigint.
-- Index delete_file_expiring. Paths go to the removal queue unless another row still refers to them. One row: vectors
-- deleted, paths queued.
with gone as materialized (
  select delete_file_id, path from delete_file
  where catalog_id = $1 and end_snapshot <= $2
  order by end_snapshot, delete_file_id limit $3
), deleted as (
  delete from delete_file where catalog_id = $1 and delete_file_id = any(array(select delete_file_id from gone))
), queued as (
  insert into file_removal (catalog_id, path, kind, reason)
  select distinct $1::bigint, g.path, 'delete'::removal_kind, 'snapshot_expiry'::removal_reason
  from gone g
  where not exists (
      select from data_file o where hashtextextended(o.path, 0) = hashtextextended(g.path, 0) and o.path = g.path)
    and not exists (
      select from delete_file o
      where hashtextextended(o.path, 0) = hashtextextended(g.path, 0) and o.path = g.path
        and not (o.catalog_id = $1 and o.delete_file_id in (select delete_file_id from gone)))
  returning 1
)
select (select count(*) from gone) as rows, (select count(*) from queued) as queued, 0::bigint as vectors_queued
