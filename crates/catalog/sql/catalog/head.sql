-- The newest snapshot. $1 catalog_id bigint. Primary key.
select head_snapshot from catalog where catalog_id = $1
