-- Tables whose drop has expired and that still have rows. $1 catalog_id bigint, $2 floor bigint, $3 limit bigint.
-- Index table_identity_dropped.
select table_id from table_identity
where catalog_id = $1 and dropped_snapshot <= $2 and not purged
order by dropped_snapshot limit $3
