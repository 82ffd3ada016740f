-- Makes a publication and its offset, under the shared floor lock. $1 catalog_id bigint, $2 name text, $3 table_id
-- bigint, $4 table_uuid uuid, $5 bootstrap_servers text, $6 topic text, $7 format text, $8 tombstones boolean, $9 the
-- snapshot that counts as published bigint. Constraint publication_name decides about the name. No row: it was taken.
with made as (
  insert into publication (catalog_id, name, table_id, table_uuid, bootstrap_servers, topic, format, tombstones)
  values ($1, $2, $3, $4, $5, $6, $7::publication_format, $8)
  on conflict on constraint publication_name do nothing
  returning catalog_id, name, table_uuid
)
insert into consumer_offset (catalog_id, consumer_id, table_uuid, committed_snapshot)
select catalog_id, 'publication:' || name, table_uuid, $9 from made
returning committed_snapshot
