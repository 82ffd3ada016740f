-- What a group needs besides load.sql when it reads in the past, deletes or carries idempotency keys: one row of JSON
-- documents, to be joined to that of load.sql. $1 catalog_id, $2 namespaces, $3 tables as there; $5 oldest read_snapshot
-- of each name bigint[] (null: no request reads this name in the past); $6 targeted data files bigint[]; $7 idempotency
-- keys text[]. A part of its own because a subquery costs its start even where it finds nothing, and most groups only
-- append. Index probes, kept so by limits: namespace_live_name, table_version_by_name, primary keys, delete_file_one_live.
select
  (select json_agg(t) from (
     select w.ordinal, v.table_id, v.begin_snapshot as begin, v.end_snapshot as "end",
            coalesce(i.dropped_snapshot = v.end_snapshot, false) as dropped,
            (select author from snapshot where catalog_id = $1 and snapshot_id = v.end_snapshot) as author
     from (select * from unnest($2::text[], $3::text[], $5::bigint[]) with ordinality limit cardinality($2))
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
            f.explicit_row_ids as compacted,
            (select author from snapshot where catalog_id = $1 and snapshot_id = f.begin_snapshot) as begin_author,
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
  (select json_agg(t) from (
     select k.key, encode(k.request_hash, 'hex') as request_hash, k.status, k.response::text as response, k.snapshot_id
     from (select * from unnest($7::text[]) limit cardinality($7)) as w(key)
     cross join lateral (
       select * from idempotency_key where catalog_id = $1 and key = w.key limit 1) k) t)::text as keys
