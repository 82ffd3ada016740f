-- The live tables of a catalog, ordered by namespace and name, each with how many files it is thought to have.
-- $1 catalog_id. Run by COPY: the numbers are put into the text.
-- Indexes: table_one_live_name, the primary keys of the others.
select i.table_id, i.table_uuid::text, n.name, v.name, coalesce(c.file_count, 0)
from table_version v
join namespace n on n.catalog_id = v.catalog_id and n.namespace_id = v.namespace_id
join table_identity i on i.catalog_id = v.catalog_id and i.table_id = v.table_id
left join table_counter c on c.catalog_id = v.catalog_id and c.table_id = v.table_id
where v.catalog_id = $1 and v.end_snapshot is null
order by n.name collate "C", v.name collate "C"
