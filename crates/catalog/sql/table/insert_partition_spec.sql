-- A new partition spec. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint, $4 spec_id bigint, $5 source field
-- ids bigint[], $6 transforms text[], $7 their parameters int[].
with spec as (
  insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot) values ($1, $2, $4, $3)
)
insert into partition_spec_field (catalog_id, table_id, spec_id, key_index, source_field_id, transform, transform_param)
select $1, $2, $4, w.ordinal - 1, w.source_field_id, w.transform::partition_transform, w.transform_param
from unnest($5::bigint[], $6::text[], $7::int[]) with ordinality as w(source_field_id, transform, transform_param, ordinal)
