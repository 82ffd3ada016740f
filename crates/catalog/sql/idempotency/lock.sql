-- Serialises requests that bring the same key. $1 catalog_id bigint, $2 key text. Advisory locks of two numbers do not
-- meet those of one, such as the commit lock.
select pg_advisory_xact_lock(hashtext($2), hashint8($1))
