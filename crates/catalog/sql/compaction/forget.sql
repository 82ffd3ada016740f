-- Forgets claims of compactors that died long ago. $1 catalog_id bigint. Primary key; there are few claims.
delete from compaction_claim where catalog_id = $1 and claimed_until < clock_timestamp() - interval '1 hour'
