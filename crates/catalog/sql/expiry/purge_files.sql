-- A page of data files that ended at or below the floor, with their statistics and vectors. $1 catalog_id bigint,
-- $2 floor bigint, $3 rows bigint. Indexes data_file_expiring, delete_file_by_data_file, primary keys, data_file_by_path,
-- delete_file_by_path. Paths go to the removal queue unless another row still refers to them. One row: files deleted,
-- data paths and vector paths queued.
with gone as materialized (
  select data_file_id, path from data_file
  where catalog_id = $1 and end_snapshot <= $2
  order by end_snapshot, data_file_id limit $3
), vectors as materialized (
  select d.delete_file_id, d.path from delete_file d
  where d.catalog_id = $1 and d.data_file_id in (select data_file_id from gone)
), deleted as (
  delete from data_file f using gone where f.catalog_id = $1 and f.data_file_id = gone.data_file_id
), deleted_statistics as (
  delete from file_statistics s using gone where s.catalog_id = $1 and s.data_file_id = gone.data_file_id
), deleted_hydration as (
  delete from hydration h using gone where h.catalog_id = $1 and h.data_file_id = gone.data_file_id
), deleted_vectors as (
  delete from delete_file d using vectors v where d.catalog_id = $1 and d.delete_file_id = v.delete_file_id
), paths as (
  select path, 'data'::removal_kind as kind from gone union select path, 'delete'::removal_kind from vectors
), queued as (
  insert into file_removal (catalog_id, path, kind, reason)
  select $1::bigint, p.path, p.kind, 'snapshot_expiry'::removal_reason
  from paths p
  where not exists (
      select from data_file o
      where hashtextextended(o.path, 0) = hashtextextended(p.path, 0) and o.path = p.path
        and not (o.catalog_id = $1 and o.data_file_id in (select data_file_id from gone)))
    and not exists (
      select from delete_file o
      where hashtextextended(o.path, 0) = hashtextextended(p.path, 0) and o.path = p.path
        and not (o.catalog_id = $1 and o.delete_file_id in (select delete_file_id from vectors)))
  returning kind
)
select (select count(*) from gone) as rows,
       (select count(*) from queued where kind = 'data') as queued,
       (select count(*) from queued where kind = 'delete') as vectors_queued
