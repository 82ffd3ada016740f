-- Takes publications that nobody holds. $1 holder uuid, $2 seconds double precision, $3 how many bigint. Reads the whole
-- table, which has a row a publication; rows that somebody else is just taking are skipped, not waited for.
with due as (
  select catalog_id, publication_id from publication
  where state <> 'halted' and lease_until <= clock_timestamp()
  order by lease_until, publication_id
  limit $3
  for update skip locked
)
update publication p
set holder = $1, fence = p.fence + 1, lease_until = clock_timestamp() + make_interval(secs => $2)
from due, catalog c
where p.catalog_id = due.catalog_id and p.publication_id = due.publication_id and c.catalog_id = p.catalog_id
returning p.catalog_id, c.name as catalog, p.publication_id, p.name, p.table_id, p.table_uuid, p.bootstrap_servers,
          p.topic, p.format::text as format, p.tombstones, p.holder, p.fence,
          (select o.committed_snapshot from consumer_offset o
           where o.catalog_id = p.catalog_id and o.consumer_id = 'publication:' || p.name
             and o.table_uuid = p.table_uuid) as committed_snapshot
