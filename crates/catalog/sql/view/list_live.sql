-- The live views of a namespace, ordered by name. $1 catalog_id bigint, $2 namespace_id bigint. Index view_live_name.
select view_id, view_uuid, name, dialect, sql from view
where catalog_id = $1 and namespace_id = $2 and end_snapshot is null
order by name collate "C"
