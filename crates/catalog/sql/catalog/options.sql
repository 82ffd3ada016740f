-- The options of a catalog. $1 catalog_id bigint. Primary key.
select snapshot_retention_seconds, consumer_floor, earliest_snapshot as earliest_snapshot_id
from catalog
where catalog_id = $1
