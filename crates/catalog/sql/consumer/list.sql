-- Every offset of a catalog with the last name of its table, ordered by consumer, namespace, table. $1 catalog_id
-- bigint. Primary key, table_uuid_unique.
select o.consumer_id, o.table_uuid, o.committed_snapshot, o.updated_at, i.last_namespace as namespace,
       i.last_name as table_name, coalesce(i.dropped_snapshot is not null, true) as table_dropped
from consumer_offset o
left join table_identity i on i.catalog_id = o.catalog_id and i.table_uuid = o.table_uuid
where o.catalog_id = $1
order by o.consumer_id collate "C", i.last_namespace collate "C", i.last_name collate "C", o.table_uuid
