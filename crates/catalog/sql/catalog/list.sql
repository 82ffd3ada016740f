-- Every catalog, ordered by name. No parameters. Reads the whole table, which has one row a catalog.
select name, data_path, head_snapshot as head_snapshot_id, schema_version, earliest_snapshot_time
from catalog
order by name collate "C"
