-- The offsets of one consumer, ordered by table. $1 catalog_id bigint, $2 consumer_id text. Primary key.
select consumer_id, table_uuid, committed_snapshot, updated_at from consumer_offset
where catalog_id = $1 and consumer_id = $2
order by table_uuid
