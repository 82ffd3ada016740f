-- Rows that belong to nothing, or to a table that is gone. A dropped table bounds its rows by its own interval: they may
-- lie there until its drop expires, then none may be left. $1 catalog_id bigint. Reads delete_file once, the primary keys
-- of file_statistics and data_file once, the others by key: the tables of the files are found by skipping through
-- data_file_by_begin. One row: violations, samples.
with recursive owner as (
  (select table_id from data_file where catalog_id = $1 order by table_id limit 1)
  union all
  select (select f.table_id from data_file f where f.catalog_id = $1 and f.table_id > o.table_id
          order by f.table_id limit 1)
  from owner o where o.table_id is not null
), violation as materialized (
  select format('table %s was dropped in snapshot %s, yet it is still called %L', i.table_id, i.dropped_snapshot, v.name)
           as detail
  from table_identity i join table_version v
    on v.catalog_id = $1 and v.table_id = i.table_id and v.end_snapshot is null
  where i.catalog_id = $1 and i.dropped_snapshot is not null
  union all
  select format('table %s was dropped in snapshot %s, yet data file %s begins in snapshot %s', i.table_id,
                i.dropped_snapshot, f.data_file_id, f.begin_snapshot)
  from table_identity i join data_file f
    on f.catalog_id = $1 and f.table_id = i.table_id and f.begin_snapshot >= i.dropped_snapshot
  where i.catalog_id = $1 and i.dropped_snapshot is not null
  union all
  select format('the drop of table %s has expired, yet %s %s is left', i.table_id, x.kind, x.id)
  from table_identity i
  cross join lateral (
    select 'data file' as kind, f.data_file_id as id from data_file f
    where f.catalog_id = $1 and f.table_id = i.table_id
    union all
    select 'column', c.field_id from table_column c where c.catalog_id = $1 and c.table_id = i.table_id
    union all
    select 'name version', v.begin_snapshot from table_version v where v.catalog_id = $1 and v.table_id = i.table_id) x
  where i.catalog_id = $1 and i.purged
  union all
  select format('data file %s belongs to table %s, which does not exist', f.data_file_id, f.table_id)
  from owner o join data_file f on f.catalog_id = $1 and f.table_id = o.table_id
  where not exists (select from table_identity i where i.catalog_id = $1 and i.table_id = o.table_id)
  union all
  select format('deletion vector %s belongs to data file %s, which does not exist', d.delete_file_id, d.data_file_id)
  from delete_file d
  where d.catalog_id = $1
    and not exists (select from data_file f where f.catalog_id = $1 and f.data_file_id = d.data_file_id)
  union all
  select format('deletion vector %s is live, its data file %s ended in snapshot %s', d.delete_file_id, d.data_file_id,
                f.end_snapshot)
  from delete_file d join data_file f on f.catalog_id = $1 and f.data_file_id = d.data_file_id
  where d.catalog_id = $1 and d.end_snapshot is null and f.end_snapshot is not null
  union all
  select format('statistics of data file %s, which does not exist', s.data_file_id)
  from file_statistics s
  where s.catalog_id = $1
    and not exists (select from data_file f where f.catalog_id = $1 and f.data_file_id = s.data_file_id)
)
select (select count(*) from violation), array(select detail from violation limit 20)
