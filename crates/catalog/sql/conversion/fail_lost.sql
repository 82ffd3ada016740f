-- Ends private conversions in the background whose server is gone, and its memory with it, or is the one of $3, whether
-- their lease has run out or not; gives back their tables. $1 status smallint, $2 answer text (json), $3 server_id uuid
-- or null. conversion_open, conversion_claim_by_conversion. What they are, for the audit trail.
with lost as (
  update conversion
  set state = 'finished', server_id = null, leased_until = null, finished_at = clock_timestamp(), status = $1,
      answer = $2::json
  where state <> 'finished' and is_background and is_private
    and (leased_until <= clock_timestamp() or server_id = $3)
  returning conversion_id, actor, source, request_id
), freed as (
  delete from conversion_claim l using lost f where l.conversion_id = f.conversion_id
)
select conversion_id, actor, source, request_id from lost
