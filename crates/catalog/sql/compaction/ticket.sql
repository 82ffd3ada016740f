-- The ticket of a staged output, locked, if it is still ours and nobody has begun to delete the object.
-- $1 removal_id bigint, $2 claimant uuid. Primary key. At most one row.
select removal_id from file_removal
where removal_id = $1 and claimed_by = $2 and coalesce(settled_at, 'infinity') = 'infinity' and attempts = 0
for update
