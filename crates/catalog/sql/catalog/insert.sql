-- A new catalog with its genesis snapshot. $1 name text, $2 data_path text, $3 canonical data_path text.
-- Fails with 23505 (catalog_name_key) for a taken name, 23P01 (catalog_data_paths_do_not_overlap) for a data path that
-- meets another catalog's: the range from `path/` to `path0` holds everything below the path.
with made as (
  insert into catalog (name, data_path, data_range)
  values ($1, $2, text_range($3 || '/', $3 || '0'))
  returning catalog_id, head_snapshot, head_snapshot_time, schema_version
), genesis as (
  insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
  select catalog_id, head_snapshot, head_snapshot_time, schema_version from made
)
select catalog_id from made
