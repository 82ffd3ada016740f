-- The newest snapshots of catalogs. $1 catalog_ids bigint[]. Primary key.
select catalog_id, head_snapshot from catalog where catalog_id = any($1)
