-- Forgets claims of compactors that died long ago, and failures of files that are not live any more. $1 catalog_id bigint.
-- Primary keys; there are few of either.
with claims as (
  delete from compaction_claim where catalog_id = $1 and claimed_until < clock_timestamp() - interval '1 hour'
)
delete from compaction_failure w
where w.catalog_id = $1
  and not exists (
    select from data_file f where f.catalog_id = $1 and f.data_file_id = w.data_file_id and f.end_snapshot is null)
