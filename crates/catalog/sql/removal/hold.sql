-- Which of these claims are ours still and last for a while yet; those that would end sooner are renewed. $1 claimant uuid,
-- $2 removal ids bigint[], $3 a while, seconds double precision, $4 lease seconds double precision. Primary key, as in
-- settle.sql. A row a claim.
with ours as materialized (
  select removal_id, claimed_until from file_removal
  where removal_id = any($2::bigint[]) and claimed_by = $1 and coalesce(settled_at, 'infinity') = 'infinity'
), renewed as (
  update file_removal
  set claimed_until = clock_timestamp() + make_interval(secs => $4)
  where removal_id = any(array(
      select removal_id from ours where claimed_until <= clock_timestamp() + make_interval(secs => $3)))
    and claimed_by = $1 and coalesce(settled_at, 'infinity') = 'infinity'
  returning removal_id
)
select removal_id from ours where claimed_until > clock_timestamp() + make_interval(secs => $3)
union
select removal_id from renewed
