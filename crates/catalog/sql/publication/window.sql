-- Where a publication stands. $1 catalog_id bigint, $2 publication_id bigint. Primary keys; the successor of a
-- dropped table is looked for among all tables of its catalog. One row, or none when the publication is gone.
select o.committed_snapshot, c.head_snapshot, c.earliest_snapshot, i.dropped_snapshot,
       i.last_namespace, i.last_name,
       (select l.table_uuid
        from table_identity l
        where l.catalog_id = i.catalog_id and i.dropped_snapshot is not null and l.dropped_snapshot is null
          and l.last_namespace = i.last_namespace and l.last_name = i.last_name
        limit 1) as successor
from publication p
join catalog c on c.catalog_id = p.catalog_id
join table_identity i on i.catalog_id = p.catalog_id and i.table_id = p.table_id
join consumer_offset o on o.catalog_id = p.catalog_id and o.consumer_id = 'publication:' || p.name
  and o.table_uuid = p.table_uuid
where p.catalog_id = $1 and p.publication_id = $2
