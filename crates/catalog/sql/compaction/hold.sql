-- How many inputs of a group are still claimed by its claimant; locked, so that nobody takes them over before the end of
-- the transaction. $1 catalog_id bigint, $2 inputs bigint[], $3 claimant uuid. Primary key.
select count(*) from (
  select 1 from compaction_claim
  where catalog_id = $1 and data_file_id = any($2) and claimed_by = $3
  order by data_file_id
  for update) held
