-- Queues an output for removal before it exists: a crash leaves a path that cleanup deletes. $1 catalog_id bigint,
-- $2 path text, $3 claimant uuid, $4 lease seconds double precision. Returns the ticket's removal_id.
insert into file_removal (catalog_id, path, kind, reason, claimed_by, claimed_until)
values ($1, $2, 'data', 'compaction_staging', $3, clock_timestamp() + make_interval(secs => $4))
returning removal_id
