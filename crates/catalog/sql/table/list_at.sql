-- The tables of a namespace at a snapshot, ordered by the names they had then. $1 catalog_id bigint, $2 namespace_id
-- bigint, $3 snapshot bigint. Index table_version_by_name.
select v.name, i.table_uuid from table_version v
join table_identity i on i.catalog_id = v.catalog_id and i.table_id = v.table_id
where v.catalog_id = $1 and v.namespace_id = $2
  and v.begin_snapshot <= $3 and (v.end_snapshot is null or $3 < v.end_snapshot)
order by v.name collate "C"
