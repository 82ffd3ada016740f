-- What decides where the floor may go. $1 catalog_id bigint. Primary key of catalog, snapshot_by_time,
-- consumer_offset_by_snapshot. One row. An offset on a table whose drop is itself too old to be kept pins nothing.
-- Of all consumers the slowest is enough, and of the publications, which bind whatever the options say.
with bound as materialized (
  -- a column, not an expression in the condition below: what changes with every row would be no bound of an index scan
  select c.*, clock_timestamp() - make_interval(secs => least(c.snapshot_retention_seconds, 3e9)) as cutoff
  from catalog c where c.catalog_id = $1
), catalog as materialized (
  select b.catalog_id, b.head_snapshot, b.earliest_snapshot, b.snapshot_retention_seconds, b.consumer_floor,
         (select s.snapshot_id from snapshot s
          where s.catalog_id = b.catalog_id and s.snapshot_time >= b.cutoff
          order by s.snapshot_time, s.snapshot_id limit 1) as first_young
  from bound b
)
select c.head_snapshot, c.earliest_snapshot, c.snapshot_retention_seconds, c.consumer_floor, c.first_young,
       slowest.consumer_id as slowest_consumer, slowest.committed_snapshot as slowest_committed,
       publication.consumer_id as slowest_publication, publication.committed_snapshot as publication_committed
from catalog c
left join lateral (
  select o.consumer_id, o.committed_snapshot
  from consumer_offset o
  join table_identity i on i.catalog_id = o.catalog_id and i.table_uuid = o.table_uuid
  where o.catalog_id = c.catalog_id and o.committed_snapshot < c.head_snapshot
    and (i.dropped_snapshot is null or i.dropped_snapshot > coalesce(c.first_young, c.head_snapshot))
  order by o.committed_snapshot, o.consumer_id limit 1) slowest on true
left join lateral (
  select o.consumer_id, o.committed_snapshot
  from consumer_offset o
  join table_identity i on i.catalog_id = o.catalog_id and i.table_uuid = o.table_uuid
  where o.catalog_id = c.catalog_id and o.committed_snapshot < c.head_snapshot
    and o.consumer_id like 'publication:%'
    and (i.dropped_snapshot is null or i.dropped_snapshot > coalesce(c.first_young, c.head_snapshot))
  order by o.committed_snapshot, o.consumer_id limit 1) publication on true
