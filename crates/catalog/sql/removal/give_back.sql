-- Gives claims back whose paths nobody has tried to delete: they are due at once, and it was no attempt. $1 claimant uuid,
-- $2 removal ids bigint[]. Primary key, as in settle.sql.
update file_removal
set claimed_by = null, claimed_until = null, attempts = attempts - 1
where removal_id = any($2::bigint[]) and claimed_by = $1 and coalesce(settled_at, 'infinity') = 'infinity'
