-- Forgets partitions without files. $1 catalog_id bigint. Primary key.
delete from partition_total where catalog_id = $1 and file_count = 0
