-- Which publications have something to do, in one moment. Parallel arrays: $1 publication ids bigint[], $2 catalog ids
-- bigint[], $3 table ids bigint[], $4 snapshots up to which all is read bigint[]. Index probes each: primary keys of
-- catalog and table_identity, data_file_by_begin, delete_file_by_begin. Unchanged: nothing
-- in (after, head] concerns the table.
select q.publication_id, q.after, c.head_snapshot,
       c.head_snapshot > q.after and (
         c.earliest_snapshot > q.after
         or exists (select 1 from table_identity i
                    where i.catalog_id = q.catalog_id and i.table_id = q.table_id and i.dropped_snapshot is not null)
         or exists (select 1 from data_file f
                    where f.catalog_id = q.catalog_id and f.table_id = q.table_id and f.begin_snapshot > q.after)
         or exists (select 1 from delete_file d
                    where d.catalog_id = q.catalog_id and d.table_id = q.table_id and d.begin_snapshot > q.after)
       ) as changed
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) as q (publication_id, catalog_id, table_id, after)
join catalog c on c.catalog_id = q.catalog_id
