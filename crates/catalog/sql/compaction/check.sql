-- Whether the plan of a group still holds, under the commit lock. $1 catalog_id bigint, $2 table_id bigint, $3 inputs
-- bigint[], $4 their vectors bigint[] (null: none). Primary keys, delete_file_one_live. One row: the table's newest DDL
-- (null when it is gone), live inputs, inputs whose vector is another, next file id.
select
  (select i.ddl_snapshot from table_identity i
   where i.catalog_id = $1 and i.table_id = $2 and i.dropped_snapshot is null) as ddl_snapshot,
  (select count(*) from unnest($3::bigint[]) as w(data_file_id)
   join data_file f on f.catalog_id = $1 and f.data_file_id = w.data_file_id
     and f.table_id = $2 and f.end_snapshot is null) as live_inputs,
  (select count(*) from unnest($3::bigint[], $4::bigint[]) as w(data_file_id, delete_file_id)
   left join delete_file d on d.catalog_id = $1 and d.data_file_id = w.data_file_id and d.end_snapshot is null
   where d.delete_file_id is distinct from w.delete_file_id) as other_vectors,
  c.next_file_id
from catalog c where c.catalog_id = $1
