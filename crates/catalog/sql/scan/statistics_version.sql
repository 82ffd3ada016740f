-- How often statistics of a table's files have arrived.
-- $1 catalog_id bigint, $2 table_id bigint
-- Index: the primary key.
select coalesce((select version from statistics_version where catalog_id = $1 and table_id = $2), 0)
