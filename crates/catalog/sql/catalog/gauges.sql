-- What metrics show of every catalog. No parameters. Reads the whole table, which has one row a catalog, and for each
-- one entry of consumer_offset_by_snapshot.
select name, head_snapshot, earliest_snapshot, live_table_count, live_file_count,
  extract(epoch from clock_timestamp() - head_snapshot_time)::float8 as head_age_seconds,
  head_snapshot - (
    select min(committed_snapshot) from consumer_offset where consumer_offset.catalog_id = catalog.catalog_id
  ) as consumer_lag
from catalog
order by catalog_id
