-- Every offset of a catalog, ordered by consumer and table. $1 catalog_id bigint. Primary key.
select consumer_id, table_uuid, committed_snapshot, updated_at from consumer_offset
where catalog_id = $1
order by consumer_id collate "C", table_uuid
