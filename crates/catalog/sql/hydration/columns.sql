-- Live columns of tables, under the names that they had when files were registered. $1 catalog_id bigint, $2 table ids
-- bigint[], $3 snapshots bigint[], pairwise distinct. Index table_column_live_ordinal, primary key of table_column.
select w.table_id, w.snapshot_id, c.field_id, t.name, c.type::text as type, c.type_params::text as type_params, c.nullable
from unnest($2::bigint[], $3::bigint[]) as w(table_id, snapshot_id)
join table_column c on c.catalog_id = $1 and c.table_id = w.table_id and c.end_snapshot is null
left join lateral (
  select v.name from table_column v
  where v.catalog_id = $1 and v.table_id = w.table_id and v.field_id = c.field_id
    and v.begin_snapshot <= w.snapshot_id and (v.end_snapshot is null or w.snapshot_id < v.end_snapshot)) t on true
order by w.table_id, w.snapshot_id, c.ordinal
