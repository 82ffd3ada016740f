-- What every group of commits needs, read after the lock was taken, in one round trip: one row of JSON documents.
-- $1 catalog_id bigint; $2 namespaces text[], $3 tables text[], $4 paths text[].
-- Every look-up is an index probe: namespace_live_name, table_live_name, primary keys, file_removal_queued_path. The
-- limits see to that: a subquery with a limit keeps its place in the join, and a limit that the planner cannot know
-- makes it expect one row of what is asked for. Without them the plan made on an empty database, and kept, reads a whole
-- catalog to find one file. `settled_at is null` is spelled as file_removal_queued_path spells it, and no other index.
select
  (select row_to_json(c) from (
     select head_snapshot, schema_version, earliest_snapshot, next_file_id,
            to_char(earliest_snapshot_time, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as earliest_time
     from catalog where catalog_id = $1) c)::text as catalog,
  (select json_agg(t) from (
     select w.ordinal, v.table_id, i.table_uuid, v.begin_snapshot as named_since, i.created_snapshot as created,
            i.ddl_snapshot as last_ddl,
            (select author from snapshot where catalog_id = $1 and snapshot_id = i.ddl_snapshot) as last_ddl_author,
            k.next_row_id, k.record_count, k.file_size_bytes
     from (select * from unnest($2::text[], $3::text[]) with ordinality limit cardinality($2))
            as w(namespace, name, ordinal)
     cross join lateral (
       select namespace_id from namespace
       where catalog_id = $1 and name = w.namespace and end_snapshot is null
       limit 1) n
     cross join lateral (
       select table_id, begin_snapshot from table_version
       where catalog_id = $1 and namespace_id = n.namespace_id and name = w.name and end_snapshot is null
       limit 1) v
     cross join lateral (
       select * from table_identity where catalog_id = $1 and table_id = v.table_id limit 1) i
     cross join lateral (
       select * from table_counter where catalog_id = $1 and table_id = v.table_id limit 1) k) t)::text as tables,
  (select json_agg(r)
   from (select * from unnest($4::text[]) limit cardinality($4)) as w(path)
   cross join lateral (
     select q.path, q.reason,
            to_char(q.scheduled_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as since
     from file_removal q
     where hashtextextended(q.path, 0) = hashtextextended(w.path, 0) and q.path = w.path
       and coalesce(q.settled_at, '-infinity') = '-infinity'
     limit 1) r)::text as queued
