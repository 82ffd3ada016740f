-- Drops a publication and releases its offset. $1 catalog_id bigint, $2 name text. Constraint publication_name, primary
-- key of consumer_offset. One row if there was one.
with gone as (
  delete from publication where catalog_id = $1 and name = $2 returning catalog_id, name, table_uuid
)
delete from consumer_offset o using gone
where o.catalog_id = gone.catalog_id and o.consumer_id = 'publication:' || gone.name and o.table_uuid = gone.table_uuid
returning o.committed_snapshot
