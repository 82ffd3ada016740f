-- How far the totals are behind. $1 catalog_id bigint. Primary keys. At most one row.
select p.folded_snapshot, p.target_bytes, c.head_snapshot
from catalog c join partition_fold p using (catalog_id) where c.catalog_id = $1
