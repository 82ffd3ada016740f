-- The live tables of a namespace, ordered by name. $1 catalog_id bigint, $2 namespace_id bigint. Index table_live_name.
select v.name, i.table_uuid from table_version v
join table_identity i on i.catalog_id = v.catalog_id and i.table_id = v.table_id
where v.catalog_id = $1 and v.namespace_id = $2 and v.end_snapshot is null
order by v.name collate "C"
