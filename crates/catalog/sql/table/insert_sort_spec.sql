-- A new sort order. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint, $4 sort_id bigint, $5 source field ids
-- bigint[], $6 descending bool[], $7 nulls_first bool[].
with spec as (
  insert into sort_spec (catalog_id, table_id, sort_id, begin_snapshot) values ($1, $2, $4, $3)
)
insert into sort_spec_field (catalog_id, table_id, sort_id, key_index, source_field_id, descending, nulls_first)
select $1, $2, $4, w.ordinal - 1, w.source_field_id, w.descending, w.nulls_first
from unnest($5::bigint[], $6::bool[], $7::bool[]) with ordinality as w(source_field_id, descending, nulls_first, ordinal)
