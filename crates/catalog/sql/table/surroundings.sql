-- What the rules of alter must know beyond the definition. Under the commit lock.
-- $1 catalog_id bigint, $2 table_id bigint, $3 namespace_id bigint, $4 wanted table names text[], $5 whether file counts
-- and former names matter boolean. Indexes data_file_idless, data_file_pending_by_table, table_live_name, primary key of
-- table_column.
select
  case when $5 then (
    select count(*) from data_file
    where catalog_id = $1 and table_id = $2 and end_snapshot is null and missing_field_ids) else 0 end as idless_files,
  case when $5 then (
    select count(*) from data_file
    where catalog_id = $1 and table_id = $2 and end_snapshot is null and stats_state = 'pending')
  else 0 end as pending_files,
  array(
    select distinct name from table_column
    -- spelled so that the index of ended columns, which leads through the whole catalog, does not offer itself
    where $5 and catalog_id = $1 and table_id = $2 and coalesce(end_snapshot, 0) > 0) as former_columns,
  array(
    select v.name from unnest($4::text[]) as w(name)
    join table_version v
      on v.catalog_id = $1 and v.namespace_id = $3 and v.name = w.name and v.end_snapshot is null and v.table_id <> $2
  ) as taken_tables
