-- Live files that no plan takes at the moment. $1 catalog_id bigint. Primary keys; there are few claims and failures. One
-- row: those that somebody rewrites, and those that are put off.
select
  (select count(*) from compaction_claim c
   join data_file f on f.catalog_id = $1 and f.data_file_id = c.data_file_id and f.end_snapshot is null
   where c.catalog_id = $1 and c.claimed_until > clock_timestamp()) as claimed,
  (select count(*) from compaction_failure w
   join data_file f on f.catalog_id = $1 and f.data_file_id = w.data_file_id and f.end_snapshot is null
   where w.catalog_id = $1 and w.next_attempt_at > clock_timestamp()) as put_off
