-- Forgets the totals of a catalog. $1 catalog_id bigint. Primary key.
delete from partition_total where catalog_id = $1
