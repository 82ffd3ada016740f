-- Records that everything up to a snapshot is acknowledged, for the holder of the lease alone. $1 catalog_id bigint,
-- $2 publication_id bigint, $3 holder uuid, $4 fence bigint, $5 snapshot bigint. Primary keys. The offset, or no row when
-- the lease has passed to somebody else, the publication is gone, or the offset would go back.
with held as (
  select catalog_id, publication_id, name, table_uuid, state, last_error from publication
  where catalog_id = $1 and publication_id = $2 and holder = $3 and fence = $4 and lease_until > clock_timestamp()
  for no key update
), active as (
  update publication p set state = 'active', last_error = null from held
  where p.catalog_id = held.catalog_id and p.publication_id = held.publication_id
    and (held.state <> 'active' or held.last_error is not null)
)
update consumer_offset o set committed_snapshot = $5, updated_at = clock_timestamp() from held
where o.catalog_id = held.catalog_id and o.consumer_id = 'publication:' || held.name
  and o.table_uuid = held.table_uuid and o.committed_snapshot <= $5
returning o.committed_snapshot
