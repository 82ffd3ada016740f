-- When a catalog's floor was reached; null while it has never moved. $1 catalog_id bigint. Primary key.
select earliest_snapshot_time from catalog where catalog_id = $1
