-- Replaces the inputs of a group by its output, under the commit lock. $1 catalog_id bigint, $2 table_id bigint, $3 inputs
-- bigint[]; the output, all null when no row is left: $4 id bigint, $5 path text, $6 rows, $7 bytes, $8 footer bytes,
-- $9 first row id, $10 spec as bigint, $11 partition values text (array literal); its statistics: $12 field ids, $13 value
-- counts, $14 null counts, $15 NaN counts, $16 sizes, $17 lower bounds, $18 upper bounds as text (array literals);
-- $19 the ticket bigint. Primary keys, delete_file_one_live. Returns the snapshot.
with output as (
  select 1 as files where $4::bigint is not null
), head as (
  update catalog
  set head_snapshot = head_snapshot + 1,
      head_snapshot_time = greatest(head_snapshot_time, clock_timestamp()),
      next_file_id = next_file_id + (select count(*) from output),
      live_file_count = live_file_count + (select count(*) from output) - cardinality($3::bigint[])
  where catalog_id = $1
  returning head_snapshot, head_snapshot_time, schema_version
), snapshots as (
  insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version, author)
  select $1, head_snapshot, head_snapshot_time, schema_version, 'compaction' from head
), changes as (
  insert into snapshot_change (catalog_id, snapshot_id, ordinal, kind, object_id)
  select $1, head_snapshot, 1, 'table_compacted', $2 from head
), ended as (
  update data_file f set end_snapshot = head_snapshot
  from head, unnest($3::bigint[]) as w(data_file_id)
  where f.catalog_id = $1 and f.data_file_id = w.data_file_id
  returning f.record_count, f.file_size_bytes
), ended_vectors as (
  update delete_file d set end_snapshot = head_snapshot
  from head, unnest($3::bigint[]) as w(data_file_id)
  where d.catalog_id = $1 and d.data_file_id = w.data_file_id and d.end_snapshot is null
), written as (
  insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                         footer_size, row_id_start, spec_id, partition_values, stats_state, explicit_row_ids)
  select $1, $4, $2, head_snapshot, $5, $6, $7, $8, $9, $10, $11::text[], 'provided', true
  from head, output
), statistics as (
  insert into file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes_bytes,
                               lower_bounds, upper_bounds)
  select $1, $4, $12::int[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bytea[], $18::bytea[]
  from output where $12::text is not null
), counters as (
  update table_counter k
  set record_count = k.record_count - e.records + coalesce($6::bigint, 0),
      file_count = k.file_count - e.files + (select count(*) from output),
      file_size_bytes = k.file_size_bytes - e.bytes + coalesce($7::bigint, 0)
  from (select count(*) as files, coalesce(sum(record_count), 0)::bigint as records,
               coalesce(sum(file_size_bytes), 0)::bigint as bytes from ended) e
  where k.catalog_id = $1 and k.table_id = $2
), ticket as (
  update file_removal set settled_at = clock_timestamp(), outcome = 'registered', claimed_by = null, claimed_until = null
  where removal_id = $19
), claims as (
  delete from compaction_claim c using unnest($3::bigint[]) as w(data_file_id)
  where c.catalog_id = $1 and c.data_file_id = w.data_file_id
), failures as (
  delete from compaction_failure c using unnest($3::bigint[]) as w(data_file_id)
  where c.catalog_id = $1 and c.data_file_id = w.data_file_id
)
select head_snapshot from head
