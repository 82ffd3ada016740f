-- Writes a group of accepted commits: one snapshot each, dense from the head. Under the commit lock.
-- $1 catalog_id bigint, $2 next_file_id bigint, $3 files added bigint
-- snapshots in order:   $4 authors text[], $5 messages text[]
-- changes:              $6 snapshot ids bigint[], $7 ordinals int[], $8 kinds text[], $9 tables bigint[]
-- data files:           $10 ids, $11 tables, $12 snapshots, $13 paths text[], $14 record counts, $15 sizes, $16 footer
--                       sizes, $17 first row ids, $18 specs, $19 partition values as array literals text[],
--                       $20 has statistics bool[] (bigint[] where nothing is said)
-- tables:               $21 ids, $22 next row ids, $23 record counts, $24 files added, $25 sizes
-- statistics:           $26 file ids bigint[], $27 field ids, $28 value counts, $29 null counts, $30 NaN counts,
--                       $31 sizes, $32 lower bounds, $33 upper bounds, each text[] of array literals
-- The limit on the table counters keeps them probed by key: the planner then expects one row of what is asked for.
-- Returns one row: this transaction's id and the time of its snapshots, by which it is found again after a crash.
with head as (
  update catalog
  set head_snapshot = head_snapshot + cardinality($4::text[]),
      head_snapshot_time = greatest(head_snapshot_time, clock_timestamp()),
      next_file_id = $2,
      live_file_count = live_file_count + $3
  where catalog_id = $1
  returning head_snapshot - cardinality($4::text[]) as base, head_snapshot_time, schema_version
), snapshots as (
  insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version, author, message)
  select $1, base + w.ordinal, head_snapshot_time, schema_version, w.author, w.message
  from head, unnest($4::text[], $5::text[]) with ordinality as w(author, message, ordinal)
), changes as (
  insert into snapshot_change (catalog_id, snapshot_id, ordinal, kind, object_id)
  select $1, w.snapshot_id, w.ordinal, w.kind::change_kind, w.table_id
  from unnest($6::bigint[], $7::int[], $8::text[], $9::bigint[]) as w(snapshot_id, ordinal, kind, table_id)
), files as (
  insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                         footer_size, row_id_start, spec_id, partition_values, stats_state)
  select $1, w.data_file_id, w.table_id, w.snapshot_id, w.path, w.record_count, w.file_size_bytes, w.footer_size,
         w.row_id_start, w.spec_id, w.partition_values::text[],
         case when w.has_statistics then 'provided' else 'pending' end::stats_state
  from unnest($10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[],
              $17::bigint[], $18::bigint[], $19::text[], $20::bool[])
    as w(data_file_id, table_id, snapshot_id, path, record_count, file_size_bytes, footer_size, row_id_start, spec_id,
         partition_values, has_statistics)
), counters as (
  update table_counter c
  set next_row_id = w.next_row_id,
      record_count = w.record_count,
      file_count = c.file_count + w.files_added,
      file_size_bytes = w.file_size_bytes
  from (select * from unnest($21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[])
        limit cardinality($21))
    as w(table_id, next_row_id, record_count, files_added, file_size_bytes)
  where c.catalog_id = $1 and c.table_id = w.table_id
), statistics as (
  insert into file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes_bytes,
                               lower_bounds, upper_bounds)
  select $1, w.data_file_id, w.field_ids::int[], w.value_counts::bigint[], w.null_counts::bigint[],
         w.nan_counts::bigint[], w.sizes::bigint[], w.lower_bounds::bytea[], w.upper_bounds::bytea[]
  from unnest($26::bigint[], $27::text[], $28::text[], $29::text[], $30::text[], $31::text[], $32::text[], $33::text[])
    as w(data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes, lower_bounds, upper_bounds)
)
select pg_current_xact_id()::text as transaction_id, head_snapshot_time from head
