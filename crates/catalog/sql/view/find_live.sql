-- A live view by name. $1 catalog_id bigint, $2 namespace_id bigint, $3 name text. Index view_live_name.
select view_id, view_uuid, name, dialect, sql from view
where catalog_id = $1 and namespace_id = $2 and name = $3 and end_snapshot is null
