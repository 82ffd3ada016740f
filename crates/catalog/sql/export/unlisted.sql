-- Objects that a catalog knows besides the live ones: those of retained snapshots and of dropped tables that have not
-- expired, and those that wait in the removal queue. A path may come several times.
-- $1 catalog_id. Run by COPY: the numbers are put into the text.
-- Indexes: data_file_ended, delete_file_ended, table_identity_dropped, data_file_live, delete_file_live,
-- file_removal_queue.
select 'retained', 'data', f.path, f.file_size_bytes
from data_file f
where f.catalog_id = $1 and f.end_snapshot is not null
union all
select 'retained', 'delete', d.path, d.file_size_bytes
from delete_file d
where d.catalog_id = $1 and d.end_snapshot is not null
union all
select 'retained', x.kind, x.path, x.file_size_bytes
from table_identity i
cross join lateral (
  select 'data' as kind, f.path, f.file_size_bytes from data_file f
  where f.catalog_id = $1 and f.table_id = i.table_id and f.end_snapshot is null
  union all
  select 'delete', d.path, d.file_size_bytes from delete_file d
  where d.catalog_id = $1 and d.table_id = i.table_id and d.end_snapshot is null
  offset 0) x
where i.catalog_id = $1 and i.dropped_snapshot is not null and not i.purged
union all
select case when r.reason = 'compaction_staging' then 'staged' else 'queued' end, r.kind::text, r.path, null
from file_removal r
where r.catalog_id = $1 and r.settled_at is null
