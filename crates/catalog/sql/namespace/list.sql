-- The namespaces visible at a snapshot, ordered by name. $1 catalog_id bigint, $2 snapshot bigint.
-- Index namespace_by_name.
select name from namespace
where catalog_id = $1 and begin_snapshot <= $2 and (end_snapshot is null or $2 < end_snapshot)
order by name collate "C"
