-- Ends the vectors that a group replaces. $1 catalog_id bigint, $2 delete_file_ids bigint[], $3 snapshots bigint[].
-- Primary key of delete_file. A statement of its own: the new vectors may only come once these are out of
-- delete_file_one_live. The limit keeps the probes by key, as in load.sql.
update delete_file d
set end_snapshot = w.snapshot_id
from (select * from unnest($2::bigint[], $3::bigint[]) limit cardinality($2)) as w(delete_file_id, snapshot_id)
where d.catalog_id = $1 and d.delete_file_id = w.delete_file_id
