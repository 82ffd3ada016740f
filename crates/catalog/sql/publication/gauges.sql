-- Every publication with its lag. Reads the whole table, which has a row a publication; primary keys of catalog and
-- consumer_offset.
select c.name as catalog, p.name, p.state::text as state, (p.last_error is not null) as troubled,
       c.head_snapshot - o.committed_snapshot as lag
from publication p
join catalog c on c.catalog_id = p.catalog_id
join consumer_offset o on o.catalog_id = p.catalog_id and o.consumer_id = 'publication:' || p.name
  and o.table_uuid = p.table_uuid
