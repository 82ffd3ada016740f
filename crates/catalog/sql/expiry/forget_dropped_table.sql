-- The rest of a table whose files are gone; its identity stays. $1 catalog_id bigint, $2 table_id bigint. Primary keys.
with versions as (delete from table_version where catalog_id = $1 and table_id = $2),
     columns as (delete from table_column where catalog_id = $1 and table_id = $2),
     specs as (delete from partition_spec where catalog_id = $1 and table_id = $2),
     orders as (delete from sort_spec where catalog_id = $1 and table_id = $2),
     counters as (delete from table_counter where catalog_id = $1 and table_id = $2),
     totals as (delete from partition_total where catalog_id = $1 and table_id = $2)
update table_identity set purged = true where catalog_id = $1 and table_id = $2
