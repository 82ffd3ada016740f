-- Whether the group that made a snapshot in a given transaction is there, asked after its connection broke, under the
-- lock (so that it is no longer in progress). $1 catalog_id bigint, $2 snapshot_id bigint, $3 snapshot_time
-- timestamptz, $4 transaction id text. The time guards against a transaction id that a crash handed out twice.
select exists (
  select from snapshot
  where catalog_id = $1 and snapshot_id = $2 and snapshot_time = $3
    and xmin::text = (($4::text::numeric % 4294967296)::bigint)::text) as committed
