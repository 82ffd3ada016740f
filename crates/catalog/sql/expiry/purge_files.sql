-- A page of data files that ended at or below the floor, or of a table whose drop has expired, with their statistics and
-- vectors. $1 catalog_id bigint, $2 floor bigint, $3 rows bigint, $4 table_id bigint or null for no table. Indexes
-- data_file_expiring or data_file_by_begin; delete_file_by_data_file, primary keys, data_file_by_path,
-- delete_file_by_path. Paths go to the removal queue unless another row still refers to them. Keys are arrays, so
-- that each is looked up whatever the planner believes about the tables. One row: files deleted, data paths and vector
-- paths queued.
with picked as materialized (
  (select ctid as place from data_file
   where catalog_id = $1 and end_snapshot <= $2 and $4::bigint is null
   order by end_snapshot, data_file_id limit $3)
  union all
  (select ctid from data_file
   where catalog_id = $1 and table_id = $4
   order by begin_snapshot, row_id_start, data_file_id limit $3)
), gone as materialized (
  delete from data_file where catalog_id = $1 and ctid = any(array(select place from picked))
  returning data_file_id, path
), ids as materialized (
  select array(select data_file_id from gone order by data_file_id) as files
), vectors as materialized (
  select d.delete_file_id, d.path from delete_file d
  where d.catalog_id = $1 and d.data_file_id = any((select files from ids)::bigint[])
), deleted_statistics as (
  delete from file_statistics where catalog_id = $1 and data_file_id = any((select files from ids)::bigint[])
), deleted_hydration as (
  delete from hydration where catalog_id = $1 and data_file_id = any((select files from ids)::bigint[])
), deleted_vectors as (
  delete from delete_file
  where catalog_id = $1 and delete_file_id = any(array(select delete_file_id from vectors))
), paths as (
  select path, 'data'::removal_kind as kind from gone union select path, 'delete'::removal_kind from vectors
), queued as (
  insert into file_removal (catalog_id, path, kind, reason)
  select $1::bigint, p.path, p.kind,
         (case when $4 is null then 'snapshot_expiry' else 'table_drop' end)::removal_reason
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
