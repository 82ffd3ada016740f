-- Stores the answer of a conversion, if it is still this server's turn, and frees its places. $1 conversion_id uuid,
-- $2 server_id uuid, $3 fence bigint, $4 status smallint, $5 answer text (json). Primary keys. One row if it was stored.
with finished as (
  update conversion
  set state = 'finished', server_id = null, leased_until = null, finished_at = clock_timestamp(), status = $4,
      answer = $5::json
  where conversion_id = $1 and server_id = $2 and fence = $3 and state = 'running'
  returning conversion_id
), freed as (
  delete from conversion_claim l using finished f where l.conversion_id = f.conversion_id
)
select conversion_id from finished
