-- Prolongs what one server publishes, and tells what it still holds. $1 holder uuid, $2 seconds double precision,
-- $3 publication ids bigint[]. What is held by its name and not published by it, because an answer was lost, is not
-- prolonged: it is free for everybody when its lease ends. Reads the whole table, which has a row a publication.
update publication set lease_until = clock_timestamp() + make_interval(secs => $2)
where holder = $1 and publication_id = any($3) and lease_until > clock_timestamp() and state <> 'halted'
returning publication_id, fence
