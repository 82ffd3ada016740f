-- Whether a live table has a name. $1 catalog_id bigint, $2 namespace_id bigint, $3 name text. Index table_live_name.
select exists (
  select 1 from table_version where catalog_id = $1 and namespace_id = $2 and name = $3 and end_snapshot is null)
