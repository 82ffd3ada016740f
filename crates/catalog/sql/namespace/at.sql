-- A namespace by name at a snapshot. $1 catalog_id bigint, $2 name text, $3 snapshot bigint. Index namespace_by_name.
select namespace_id from namespace
where catalog_id = $1 and name = $2 and begin_snapshot <= $3 and (end_snapshot is null or $3 < end_snapshot)
