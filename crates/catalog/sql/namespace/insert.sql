-- A new namespace. $1 catalog_id bigint, $2 namespace_id bigint, $3 name text, $4 snapshot bigint.
insert into namespace (catalog_id, namespace_id, name, begin_snapshot) values ($1, $2, $3, $4)
