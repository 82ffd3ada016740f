-- Ends private conversions whose server is gone, and its memory with it; with $3, those of that server whether its lease
-- has run out or not. $1 status smallint, $2 answer text (json), $3 server_id uuid or null. conversion_open. Their ids.
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
