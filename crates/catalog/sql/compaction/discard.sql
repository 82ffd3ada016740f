-- Settles the ticket of an output that was never written. $1 removal_id bigint, $2 claimant uuid. Primary key.
update file_removal set settled_at = clock_timestamp(), outcome = 'absent', claimed_by = null, claimed_until = null
where removal_id = $1 and claimed_by = $2 and coalesce(settled_at, 'infinity') = 'infinity'
