-- One offset. $1 catalog_id bigint, $2 consumer_id text, $3 table_uuid uuid. Primary key.
select consumer_id, table_uuid, committed_snapshot, updated_at from consumer_offset
where catalog_id = $1 and consumer_id = $2 and table_uuid = $3
