-- A new name of a table. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint, $4 namespace_id bigint,
-- $5 name text.
insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name) values ($1, $2, $3, $4, $5)
