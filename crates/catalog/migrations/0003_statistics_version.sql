-- Entity tags of reads at a fixed snapshot: the files never change, but their statistics may still arrive, and then
-- `stats_state`, `column_stats` and what a filter can leave out change. The version of a table goes up with each such
-- file. It is a table of its own, so that hydration never waits for a commit's row of table_counter nor holds it.
create table statistics_version (
  catalog_id bigint not null,
  table_id bigint not null,
  version bigint not null,
  primary key (catalog_id, table_id)
) with (fillfactor = 50);

create function count_statistics_version() returns trigger
language plpgsql
set search_path from current
as $$
begin
  insert into statistics_version as v (catalog_id, table_id, version)
  select n.catalog_id, n.table_id, count(*)
  from new_file n
  join old_file o on o.catalog_id = n.catalog_id and o.data_file_id = n.data_file_id
  where n.stats_state is distinct from o.stats_state or n.footer_size is distinct from o.footer_size
  group by n.catalog_id, n.table_id
  -- one order for everybody, so that two of them never wait for each other
  order by n.catalog_id, n.table_id
  on conflict (catalog_id, table_id) do update set version = v.version + excluded.version;
  return null;
end
$$;

-- by statement: one that requeues a million files counts them in one row once
create trigger data_file_statistics_version
  after update on data_file
  referencing old table as old_file new table as new_file
  for each statement
  execute function count_statistics_version();

-- the live vectors of a table, without those of its history
create index delete_file_live on delete_file (catalog_id, table_id, data_file_id) where end_snapshot is null;
