-- Deletes keys that nobody may rely on any more: older than a day, their snapshot expired. $1 limit bigint.
-- Index idempotency_key_by_age, primary key of catalog.
delete from idempotency_key
where ctid = any(array(
  select k.ctid from idempotency_key k
  left join catalog c on c.catalog_id = k.catalog_id
  where k.created_at < now() - interval '24 hours'
    and (k.snapshot_id is null or c.catalog_id is null or k.snapshot_id < c.earliest_snapshot)
  order by k.created_at
  limit $1
))
