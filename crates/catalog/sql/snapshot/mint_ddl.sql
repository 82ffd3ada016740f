-- Makes the snapshot of a DDL request and advances the catalog, under the commit lock.
-- $1 catalog_id bigint, $2 next_namespace_id, $3 next_table_id, $4 next_view_id, $5 live_table_count,
-- $6 live_file_count (bigint), $7 change kinds text[], $8 changed objects bigint[], $9 author text.
-- Primary key of catalog.
-- Returns this transaction's id and the snapshot's time, by which it is found again after a crash.
with head as (
  update catalog
  set head_snapshot = head_snapshot + 1,
      head_snapshot_time = greatest(head_snapshot_time, clock_timestamp()),
      schema_version = schema_version + 1,
      next_namespace_id = $2,
      next_table_id = $3,
      next_view_id = $4,
      live_table_count = $5,
      live_file_count = $6
  where catalog_id = $1
  returning head_snapshot, head_snapshot_time, schema_version
), minted as (
  insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version, author)
  select $1, head_snapshot, head_snapshot_time, schema_version, $9 from head
), changes as (
  insert into snapshot_change (catalog_id, snapshot_id, ordinal, kind, object_id)
  select $1, head_snapshot, c.ordinal, c.kind::change_kind, c.object_id
  from head, unnest($7::text[], $8::bigint[]) with ordinality as c(kind, object_id, ordinal)
)
select pg_current_xact_id()::text as transaction_id, head_snapshot_time from head
