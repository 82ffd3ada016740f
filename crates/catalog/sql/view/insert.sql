-- A new view. $1 catalog_id bigint, $2 view_id bigint, $3 view_uuid uuid, $4 namespace_id bigint, $5 name text,
-- $6 dialect text, $7 sql text, $8 snapshot bigint.
insert into view (catalog_id, view_id, view_uuid, namespace_id, name, dialect, sql, begin_snapshot)
values ($1, $2, $3, $4, $5, $6, $7, $8)
