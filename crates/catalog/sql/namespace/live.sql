-- A live namespace by name. $1 catalog_id bigint, $2 name text. Index namespace_live_name. At most one row.
select namespace_id from namespace where catalog_id = $1 and name = $2 and end_snapshot is null
