-- Ends a view. $1 catalog_id bigint, $2 view_id bigint, $3 snapshot bigint. Primary key.
update view set end_snapshot = $3 where catalog_id = $1 and view_id = $2
