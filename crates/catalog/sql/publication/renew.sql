-- Prolongs what one server holds, and tells what that is. $1 holder uuid, $2 seconds double precision. Reads the whole
-- table, which has a row a publication.
update publication set lease_until = clock_timestamp() + make_interval(secs => $2)
where holder = $1 and lease_until > clock_timestamp() and state <> 'halted'
returning publication_id, fence
