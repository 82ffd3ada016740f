-- The publications of a catalog with their progress, ordered by name. $1 catalog_id bigint, $2 name text, or null for
-- all. Constraint publication_name, primary keys of consumer_offset and catalog.
select p.name, p.table_uuid, p.bootstrap_servers, p.topic, p.format::text as format, p.tombstones, p.state::text as state,
       p.last_error, o.committed_snapshot, c.head_snapshot
from publication p
join catalog c on c.catalog_id = p.catalog_id
join consumer_offset o on o.catalog_id = p.catalog_id and o.consumer_id = 'publication:' || p.name
  and o.table_uuid = p.table_uuid
where p.catalog_id = $1 and ($2::text is null or p.name = $2)
order by p.name collate "C"
