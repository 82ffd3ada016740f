-- All that a group of commits needs, read after the lock was taken, in one round trip: one row of JSON documents.
-- $1 catalog_id bigint; $2 namespaces text[], $3 tables text[], $4 oldest read_snapshot of each bigint[] (null: no
-- request reads this name in the past); $5 paths text[]; $6 targeted data files bigint[]; $7 idempotency keys text[].
-- Every look-up is an index probe: namespace_live_name, table_live_name, table_version_by_name, primary keys,
-- file_removal_queued_path, delete_file_one_live. The limits see to that: a subquery with a limit keeps its place in the
-- join, and a limit that the planner cannot know makes it expect one row of what is asked for. Without them the plan
-- made on an empty database, and kept, reads a whole catalog to find one file.
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
  (select json_agg(t) from (
     select w.ordinal, v.table_id, v.begin_snapshot as begin, v.end_snapshot as "end",
            coalesce(i.dropped_snapshot = v.end_snapshot, false) as dropped,
            (select author from snapshot where catalog_id = $1 and snapshot_id = v.end_snapshot) as author
     from (select * from unnest($2::text[], $3::text[], $4::bigint[]) with ordinality limit cardinality($2))
            as w(namespace, name, oldest_read, ordinal)
     cross join lateral (
       select namespace_id from namespace
       where w.oldest_read is not null and catalog_id = $1 and name = w.namespace and end_snapshot is null
       limit 1) n
     cross join lateral (
       select table_id, begin_snapshot, end_snapshot from table_version
       where catalog_id = $1 and namespace_id = n.namespace_id and name = w.name and end_snapshot > w.oldest_read
       offset 0) v
     cross join lateral (
       select dropped_snapshot from table_identity where catalog_id = $1 and table_id = v.table_id limit 1) i
     ) t)::text as past,
  (select json_agg(t) from (
     select f.data_file_id, f.table_id, f.begin_snapshot as begin, f.end_snapshot as "end",
            (select author from snapshot where catalog_id = $1 and snapshot_id = f.end_snapshot) as end_author,
            f.record_count, d.delete_file_id as vector_id, d.begin_snapshot as vector_begin, d.delete_count,
            (select author from snapshot where catalog_id = $1 and snapshot_id = d.begin_snapshot) as vector_author
     from (select * from unnest($6::bigint[]) limit cardinality($6)) as w(data_file_id)
     cross join lateral (
       select * from data_file where catalog_id = $1 and data_file_id = w.data_file_id limit 1) f
     left join lateral (
       select delete_file_id, begin_snapshot, delete_count from delete_file
       where catalog_id = $1 and data_file_id = f.data_file_id and end_snapshot is null
       limit 1) d on true) t)::text as targets,
  (select json_agg(r.path)
   from (select * from unnest($5::text[]) limit cardinality($5)) as w(path)
   cross join lateral (
     select q.path from file_removal q
     where hashtextextended(q.path, 0) = hashtextextended(w.path, 0) and q.settled_at is null and q.path = w.path
     limit 1) r)::text as queued,
  (select json_agg(t) from (
     select k.key, encode(k.request_hash, 'hex') as request_hash, k.status, k.response::text as response, k.snapshot_id
     from (select * from unnest($7::text[]) limit cardinality($7)) as w(key)
     cross join lateral (
       select * from idempotency_key where catalog_id = $1 and key = w.key limit 1) k) t)::text as keys
