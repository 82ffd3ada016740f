-- Entity tags of reads at a fixed snapshot: the files never change, but their statistics may still arrive, and then
-- `stats_state`, `column_stats` and what a filter can leave out change. The version of a table goes up with each such
-- file. It is a table of its own, so that hydration never waits for a commit's row of table_counter nor holds it.
-- Whoever changes states of several files in one transaction takes them in the order of (catalog_id, table_id).
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
  values (new.catalog_id, new.table_id, 1)
  on conflict (catalog_id, table_id) do update set version = v.version + 1;
  return null;
end
$$;

create trigger data_file_statistics_version
  after update of stats_state, footer_size on data_file
  for each row
  when (old.stats_state is distinct from new.stats_state or old.footer_size is distinct from new.footer_size)
  execute function count_statistics_version();

-- the live vectors of a table, without those of its history
create index delete_file_live on delete_file (catalog_id, table_id, data_file_id) where end_snapshot is null;
